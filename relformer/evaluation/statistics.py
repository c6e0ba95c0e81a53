"""Tests and intervals of a comparison: exact where they can be, seeded where they are drawn.

Two questions are kept apart. *Over seeds*: would another training run of the same kind come out like that? The unit is
a run. *Over sentences*: would these very models come out like that on other sentences? The unit is a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

PERMUTATIONS = 10_000
"""More arrangements than these are not all counted but drawn."""
RESAMPLES = 10_000
SCORED_RESAMPLES = 1000
"""Of a score that is no mean over sentences and must be computed of each, as many as sacreBLEU draws."""
DRAWN_SEED = 0

Floats = NDArray[np.float64]
Kind = Literal["paired", "unpaired"]


@dataclass(frozen=True)
class PermutationTest:
    """A two-sided p, how it was found, and the least p that so many seeds can give."""

    p: float
    kind: Kind
    exact: bool
    least: float


def paired_permutation(differences: Sequence[float]) -> PermutationTest:
    """Over pairs of runs with one seed: the mean difference against all 2^n choices of its terms' signs.

    Two-sided p is twice the smaller tail, as in `scipy.stats.permutation_test`. Above 10,000 choices as many are drawn,
    with the observed one among them, so that p is never 0. Five pairs can't go below .0625, six not below .031.
    """
    values = np.asarray(differences, dtype=np.float64)
    n = len(values)
    exact = 2**n <= PERMUTATIONS
    signs = np.array(list(product((1.0, -1.0), repeat=n))) if exact else drawn_signs(n)
    return tested(signs @ values / n, float(values.mean()), values, "paired", exact, 2 / 2**n)


def unpaired_permutation(one: Sequence[float], other: Sequence[float]) -> PermutationTest:
    """Over runs whose seeds don't pair: the difference of means against all ways to deal the values to two groups.

    Where seeds do pair and pull both runs the same way it holds its level and has less power. Three against three
    can't go below .10, five against five not below .008.
    """
    values = np.asarray([*one, *other], dtype=np.float64)
    n, total = len(one), len(values)
    ways = math.comb(total, n)
    exact = ways <= PERMUTATIONS
    dealt = np.zeros((ways if exact else PERMUTATIONS, total))
    for row, chosen in zip(dealt, combinations(range(total), n) if exact else drawn_groups(total, n), strict=True):
        row[list(chosen)] = 1.0
    sums = dealt @ values
    null = sums / n - (values.sum() - sums) / (total - n)
    observed = float(np.mean(one) - np.mean(other))
    return tested(null, observed, values, "unpaired", exact, 2 / ways)


def tested(null: Floats, observed: float, values: Floats, kind: Kind, exact: bool, least: float) -> PermutationTest:
    """Twice the smaller tail; sums of the values that differ by rounding alone are ties."""
    slack = 1e-12 * float(np.abs(values).max())
    tails = [int((null >= observed - slack).sum()), int((null <= observed + slack).sum())]
    extra = 0 if exact else 1
    p = min(1.0, 2 * (min(tails) + extra) / (len(null) + extra))
    return PermutationTest(p, kind, exact, max(least, 0.0 if exact else 2 / (PERMUTATIONS + 1)))


def drawn_signs(n: int) -> Floats:
    return np.random.default_rng(DRAWN_SEED).choice((1.0, -1.0), size=(PERMUTATIONS, n))


def drawn_groups(total: int, n: int) -> Iterator[Sequence[int]]:
    generator = np.random.default_rng(DRAWN_SEED)
    for _ in range(PERMUTATIONS):
        yield generator.permutation(total)[:n].tolist()


@dataclass(frozen=True)
class McNemar:
    """How many sentences only one of two models gets right, and the two-sided p of such an imbalance."""

    only_first: int
    only_second: int
    p_exact: float
    p_mid: float


def mcnemar(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> McNemar:
    """Two models on the same sentences (n,): the exact binomial test of the discordant ones (McNemar 1947), and its
    mid-p, which is less conservative and holds the level in practice (Fagerland, Lydersen and Laake 2013)."""
    b, c = int((first & ~second).sum()), int((~first & second).sum())
    n, least = b + c, min(b, c)
    below = math.fsum(binomial_half(n, k) for k in range(least + 1))
    return McNemar(b, c, min(1.0, 2 * below), min(1.0, 2 * below - binomial_half(n, least)))


def binomial_half(n: int, k: int) -> float:
    """The chance of k heads in n tosses, by logarithms: n may be a large test set."""
    return math.exp(math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) - n * math.log(2))


def bootstrap_over_sentences(differences: Floats) -> tuple[float, float]:
    """The 95 % percentile interval of a mean difference, sentences drawn with replacement 10,000 times, seeded.

    Sentences of equal difference are drawn together, by their number: the same law, in a fraction of the time.
    """
    values, counts = np.unique(differences.round(9), return_counts=True)
    n = len(differences)
    drawn = np.random.default_rng(DRAWN_SEED).multinomial(n, counts / n, size=RESAMPLES) @ values / n
    low, high = np.quantile(drawn, (0.025, 0.975))
    return float(low), float(high)


@dataclass(frozen=True)
class PairedBootstrap:
    """A difference of scores, the mean over pairs of models, its 95 % percentile interval over other sentences, and the
    two-sided p of each pair."""

    mean: float
    low: float
    high: float
    p: list[float]


def bootstrap_of_scores(ours: Floats, theirs: Floats, score: Callable[[Floats], float]) -> PairedBootstrap:
    """Pairs of models by a score of a set's sums, such as BLEU's counts (Koehn 2004, "Statistical significance tests
    for machine translation evaluation"), seeded. The p is of both tails, about twice sacreBLEU's, which is of one;
    it is 1 where no resample differs, as of a single sentence.

    Args:
        ours, theirs: counts (pairs, sentences, K) of the same sentences. All pairs see the same resamples.
        score: of summed counts (K,).
    """

    def differences(weights: NDArray[Any]) -> list[float]:
        return [score(weights @ one) - score(weights @ other) for one, other in zip(ours, theirs, strict=True)]

    n, generator = ours.shape[1], np.random.default_rng(DRAWN_SEED)
    observed = np.array(differences(np.ones(n)))
    drawn = np.array([differences(generator.multinomial(n, np.full(n, 1 / n))) for _ in range(SCORED_RESAMPLES)])
    low, high = np.quantile(drawn.mean(axis=1), (0.025, 0.975))
    by_chance = np.abs(drawn - drawn.mean(axis=0)) >= np.abs(observed)  # the law of a difference that is none
    by_chance |= np.ptp(drawn, axis=0) < 1e-9
    p = (by_chance.sum(axis=0) + 1) / (SCORED_RESAMPLES + 1)
    return PairedBootstrap(float(observed.mean()), float(low), float(high), p.tolist())


def interval_over_seeds(values: Sequence[float]) -> tuple[float, float] | None:
    """Student's 95 % interval of a mean over training runs; None for a single run, of which no spread is known."""
    n = len(values)
    if n < 2:
        return None
    mean = float(np.mean(values))
    half = t_quantile(n - 1) * float(np.std(values, ddof=1)) / math.sqrt(n)
    return mean - half, mean + half


def interval_between(one: Sequence[float], other: Sequence[float]) -> tuple[float, float] | None:
    """Student's 95 % interval of the difference of two groups' means, spread pooled; None where neither has one."""
    n, m = len(one), len(other)
    if n + m < 3:
        return None
    squares = n * float(np.var(one)) + m * float(np.var(other))
    half = t_quantile(n + m - 2) * math.sqrt(squares / (n + m - 2) * (1 / n + 1 / m))
    mean = float(np.mean(one) - np.mean(other))
    return mean - half, mean + half


@cache
def t_quantile(freedom: int) -> float:
    """Student's t at .975, by bisection of its distribution function."""
    return bisected(lambda t: student_within(t, freedom) - 0.95, 0.0, 13.0)


def student_within(t: float, freedom: int) -> float:
    """P(|T| < t) for whole degrees of freedom, a finite sum (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = freedom % 2
    term = total = cosine if odd else 1.0
    for k in range(2 + odd, freedom - 1, 2):
        term *= cosine**2 * (k - 1) / k
        total += term
    if not odd:
        return sine * total
    return 2 / math.pi * (angle + (sine * total if freedom > 1 else 0.0))


def bisected(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a rising function crosses 0."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return (low + high) / 2


def holm(ps: Sequence[float]) -> list[float]:
    """Adjusted p of several tests (Holm 1979): below .05 in the whole family with at most 5 % chance of one error."""
    order = sorted(range(len(ps)), key=lambda i: ps[i])
    adjusted, largest = [0.0] * len(ps), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[i]))
        adjusted[i] = largest
    return adjusted
