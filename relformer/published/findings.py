"""What papers and texts say of a table, as an order of its rows, and whether our runs have it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from statistics import mean
from typing import Any

from relformer.evaluation.groups import Group
from relformer.evaluation.report import LEARNED
from relformer.published.reach import reached
from relformer.published.rows import Row

LEVEL = 0.05
"""Of the chance, from which two rows count as told apart: three runs against three. One-sided, where
`relformer compare` asks for two sides and five seeds: the paper said which row is above before we ran any."""


@dataclass(frozen=True)
class Finding:
    """`order` holds groups of rows, by name: every run of one lies above every run of the next. On the set of the rows,
    or another; in the rows' figure, or in how far it reaches."""

    says: str
    order: tuple[tuple[str, ...], ...]
    set: str | None = None
    reach: bool = False

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Finding:
        order = tuple(map(tuple, content["order"]))
        return cls(content["says"], order, content.get("set"), content.get("reach", False))

    def sample(self, row: Row, group: Group) -> Sample:
        if self.reach:
            each = [reached(replace(group, runs={seed: run})) for seed, run in sorted(group.runs.items())]
            return Sample(row.name, [float(length) for length in each if length is not None], 0)
        return Sample(row.name, group.values(self.set or row.set, row.figure))


@dataclass(frozen=True)
class Sample:
    """The runs of a row."""

    name: str
    values: list[float]
    digits: int = 3

    def __str__(self) -> str:
        low, high = (f"{value:.{self.digits}f}" for value in (min(self.values), max(self.values)))
        figures = low if len(self.values) == 1 else f"{low} - {high}"
        return f"{self.name} {figures} (n {len(self.values)})"


def finding_lines(findings: Sequence[Finding], rows: Sequence[Row], found: Sequence[Group]) -> Iterator[str]:
    """A line of Markdown for each, and an empty one behind them."""
    of_row = {row.name: (row, group) for row, group in zip(rows, found, strict=True)}
    for finding in findings:
        order = [[finding.sample(*of_row[name]) for name in names] for names in finding.order]
        said = f"- {finding.says}: {verdict(order)}"
        failed = [name for names in finding.order for name in names if not learned(*of_row[name])]
        yield said + (f" Not learned: {'; '.join(failed)}." if failed and finding.set is None else "")
    if findings:
        yield ""


def in_distribution(row: Row, group: Group) -> list[float]:
    """Exact match of each run, which says nothing of text."""
    return [] if row.of_text else group.values("test_iid")


def learned(row: Row, group: Group) -> bool:
    """Whether the runs, where there are any, do in distribution what is asked beyond it."""
    values = in_distribution(row, group)
    return not values or mean(values) >= LEARNED


def verdict(order: Sequence[Sequence[Sample]]) -> str:
    """Confirmed where every pair is told apart as said, contradicted where one is the other way round; what the means
    say so far where there are too few runs, they overlap, or some rows have none."""
    missing = [sample.name for group in order for sample in group if not sample.values]
    unknown = f"not run: {'; '.join(missing)}." if missing else ""
    pairs = [pair for one, next_ in pairwise(order) for pair in product(one, next_) if all(row.values for row in pair)]
    if not pairs:
        return f"**open**, {unknown}"
    rest = f" Still {unknown}" if missing else ""
    against = [(a, b) for a, b in pairs if mean(a.values) <= mean(b.values)]
    if against:
        # Nobody said beforehand which pair, or that it would be the other way round.
        level = LEVEL / (2 * len(pairs))
        word = "contradicted" if any(told_apart(b, a, level) for a, b in against) else "so far no"
        return f"**{word}**: {'; '.join(f'{a} is not above {b}' for a, b in against)}.{rest}"
    a, b = min(pairs, key=lambda pair: min(pair[0].values) - max(pair[1].values))
    if not missing and all(told_apart(*pair) for pair in pairs):
        return f"**confirmed**: closest are {a} above {b}, by chance p = {chance(a, b):.3g}."
    return f"**so far yes**: closest are {a} above {b}.{rest}"


def told_apart(above: Sample, below: Sample, level: float = LEVEL) -> bool:
    return min(above.values) > max(below.values) and chance(above, below) <= level


def chance(one: Sample, other: Sample) -> float:
    """That all runs of one lie above all of the other where they are drawn alike."""
    return 1 / math.comb(len(one.values) + len(other.values), len(one.values))
