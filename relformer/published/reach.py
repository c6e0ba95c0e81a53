"""How far the right answers of a row reach."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from relformer.evaluation.groups import Group

ENOUGH = 10
"""Sentences of a length for its figure to count alone."""


def reached(group: Group) -> int | None:
    """The longest length, in distribution or beyond, up to which half of the outputs are right, mean over seeds.

    0 where the shortest are not. Lengths of few sentences count with the next. None where there are no lengths, or both
    sets have one: that of targets padded to it.
    """
    inside, beyond = (sorted(group.lengths(name)) for name in ("test_iid", "test_longer"))
    if not inside or set(inside) & set(beyond):
        return None
    furthest = 0
    for name, lengths in (("test_iid", inside), ("test_longer", beyond)):
        for low, high in pooled(group, name, lengths):
            (values,) = group.by_length(name, [(low, high)]).values()
            if statistics.mean(values) < 0.5:
                return furthest
            furthest = high
    return furthest


def pooled(group: Group, name: str, lengths: list[int]) -> Iterator[tuple[int, int]]:
    """Neighbouring lengths of a set, as many together as have `ENOUGH` sentences; the last may have fewer."""
    low = None
    for length in lengths:
        low = length if low is None else low
        if group.sentences(name, (low, length)) >= ENOUGH or length == lengths[-1]:
            yield low, length
            low = None
