"""Groups of runs against a baseline: over seeds, and over sentences where outcomes are stored.

The test over seeds is chosen by their number, before any result: sign flips within pairs where both groups have the
same seeds and so many that .05 can be reached (six), otherwise the test without pairs, for which five a group do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from relformer.errors import UserError
from relformer.evaluation.groups import Group
from relformer.evaluation.sentences import OverSentences, over_sentences
from relformer.evaluation.statistics import (
    PermutationTest,
    holm,
    interval_between,
    interval_over_seeds,
    paired_permutation,
    unpaired_permutation,
)

LEVEL = 0.05
Choice = Literal["auto", "paired", "unpaired"]


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
        over_sentences(group, base, name, figure, common) if common else None,
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
