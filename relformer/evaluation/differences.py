"""Groups of runs against a baseline: over seeds, and over sentences where outcomes are stored.

The test over seeds is chosen by their number, before any result: sign flips within pairs where both groups have the
same seeds and so many that .05 can be reached (six), otherwise the test without pairs, for which five a group do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from relformer.errors import UserError
from relformer.evaluation.groups import Group
from relformer.evaluation.scores import PERCENT
from relformer.evaluation.statistics import (
    McNemar,
    PermutationTest,
    bootstrap_over_sentences,
    holm,
    interval_between,
    interval_over_seeds,
    mcnemar,
    paired_permutation,
    unpaired_permutation,
)

LEVEL = 0.05
Choice = Literal["auto", "paired", "unpaired"]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class OverSentences:
    """The difference of these trained models on these sentences: seeds in common, 95 % bootstrap interval of the mean
    over them, and McNemar's test of each pair of runs (of exact match alone)."""

    n: int
    mean: float
    low: float
    high: float
    mcnemar: dict[int, McNemar]


@dataclass(frozen=True)
class Difference:
    """A group minus the baseline in one figure of one set.

    `interval` is Student's over seeds, of pairs where the test is of pairs; `p_holm` is adjusted over all groups.
    """

    group: int
    set: str
    figure: str
    mean: float
    interval: tuple[float, float] | None
    test: PermutationTest
    p_holm: float
    sentences: OverSentences | None


def against_baseline(
    groups: Sequence[Group], baseline: int, name: str, figure: str, choice: Choice = "auto"
) -> list[Difference]:
    """Every group with the baseline's sentences against it, Holm's correction over them."""
    base = groups[baseline]
    rivals = [i for i, g in enumerate(groups) if i != baseline and g.content == base.content]
    rivals = [i for i in rivals if groups[i].values(name, figure)] if base.values(name, figure) else []
    found = [difference(i, groups[i], base, name, figure, choice) for i in rivals]
    adjusted = holm([each.test.p for each in found])
    return [replace(each, p_holm=p) for each, p in zip(found, adjusted, strict=True)]


def difference(number: int, group: Group, base: Group, name: str, figure: str, choice: Choice) -> Difference:
    ours, theirs = group.by_seed(name, figure), base.by_seed(name, figure)
    common = sorted(ours.keys() & theirs.keys())
    pairs = [ours[seed] - theirs[seed] for seed in common]
    one, other = list(ours.values()), list(theirs.values())
    test = tested(ours, theirs, choice)
    paired = test.kind == "paired"
    return Difference(
        number,
        name,
        figure,
        float(np.mean(pairs) if paired else np.mean(one) - np.mean(other)),
        interval_over_seeds(pairs) if paired else interval_between(one, other),
        test,
        test.p,
        over_sentences(group, base, name, figure, common) if common and figure not in PERCENT else None,
    )


def tested(ours: Mapping[int, float], theirs: Mapping[int, float], choice: Choice) -> PermutationTest:
    """The permutation test of two groups' values by seed.

    Raises:
        UserError: pairs are asked for, and the groups have no seed in common.
    """
    common = sorted(ours.keys() & theirs.keys())
    if choice == "paired" and not common:
        raise UserError("test=paired needs seeds that both groups have; they have none in common, choose test=unpaired")
    whole = ours.keys() == theirs.keys()
    if choice == "paired" or (choice == "auto" and whole and 2 / 2 ** len(common) <= LEVEL):
        return paired_permutation([ours[seed] - theirs[seed] for seed in common])
    return unpaired_permutation(list(ours.values()), list(theirs.values()))


def over_sentences(group: Group, base: Group, name: str, figure: str, common: Sequence[int]) -> OverSentences | None:
    """None where a run has no stored outcomes.

    Raises:
        UserError: the outcomes are of other sentences, though the data have the same options.
    """
    pairs: dict[int, tuple[Floats, Floats]] = {}
    for seed in common:
        ours, theirs = (stored(each.paths.get(seed), name) for each in (group, base))
        if ours is None or theirs is None:
            return None
        if not np.array_equal(ours["lengths"], theirs["lengths"]):
            places = " and ".join(str(each.paths[seed].parent / "examples.jsonl") for each in (group, base))
            raise UserError(f"{places} hold other sentences in {name}, though their data have the same options")
        pairs[seed] = ours[figure], theirs[figure]
    mean = np.mean([one - other for one, other in pairs.values()], axis=0)
    low, high = bootstrap_over_sentences(mean)
    each = {s: mcnemar(one > 0.5, other > 0.5) for s, (one, other) in pairs.items()} if figure == "exact_match" else {}
    return OverSentences(len(mean), float(mean.mean()), low, high, each)


def stored(metrics: Path | None, name: str) -> dict[str, Floats] | None:
    """The outcomes of a set, an entry a sentence in the set's order; None where there are none."""
    path = metrics.parent / "examples.jsonl" if metrics else None
    return read_outcomes(path).get(name) if path and path.exists() else None


@cache
def read_outcomes(path: Path) -> dict[str, dict[str, Floats]]:
    """`examples.jsonl` by set: `lengths` (n, 2), `exact_match` (n,), `correct_prefix` (n,).

    Raises:
        UserError: the line that is no outcome.
    """
    rows: dict[str, list[tuple[float, ...]]] = {}
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                r = json.loads(line)
                prefix = r["first_error"] / r["labels"]
                row = (r["index"], r["source_length"], r["target_length"], r["exact_match"], prefix)
                rows.setdefault(r["set"], []).append(row)
            except (ValueError, KeyError, TypeError) as error:
                rule = f"is not the outcome of a sentence ({type(error).__name__}: {error})"
                raise UserError(f"{path}:{number} {rule}; move the file away to compare over seeds alone") from None
    found = {}
    for name, content in rows.items():
        table = np.array(sorted(content), dtype=np.float64)
        found[name] = {"lengths": table[:, 1:3], "exact_match": table[:, 3], "correct_prefix": table[:, 4]}
    return found
