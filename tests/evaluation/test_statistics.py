"""Tests and intervals against scipy and statsmodels, and against simulated runs whose truth is known."""

import math
from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar as reference_mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from relformer.evaluation.statistics import (
    PERMUTATIONS,
    bootstrap_over_sentences,
    holm,
    interval_over_seeds,
    mcnemar,
    paired_permutation,
    t_quantile,
    unpaired_permutation,
)
from relformer.evaluation.summary import wilson

GAPS = {"equal": 0.0, "slightly different": 0.01, "very different": 0.3}


def simulated(gap: float, seeds: int, generator: np.random.Generator, shared: float = 0.0) -> tuple[list[float], ...]:
    """Exact match of the runs of two encodings; of the spread, .02, what the seed shares gives both the same part."""
    common = generator.normal(0, 1, seeds) * math.sqrt(shared)
    runs = [mean + 0.02 * (common + math.sqrt(1 - shared) * generator.normal(0, 1, seeds)) for mean in (0.5, 0.5 + gap)]
    return tuple(run.tolist() for run in runs)


def mean_difference(x: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    return x.mean(axis=axis) - y.mean(axis=axis)


@pytest.mark.parametrize("seeds", [3, 5, 10])
@pytest.mark.parametrize("gap", GAPS.values(), ids=GAPS)
@pytest.mark.parametrize("draw", range(3))
def test_the_exact_p_of_pairs_is_scipys(seeds: int, gap: float, draw: int) -> None:
    one, other = simulated(gap, seeds, np.random.default_rng(draw))
    expected = stats.permutation_test((one, other), mean_difference, permutation_type="samples", n_resamples=math.inf)
    found = paired_permutation(np.subtract(one, other).tolist())
    assert found.exact and found.p == pytest.approx(expected.pvalue, abs=1e-12)
    assert found.least == 2 / 2**seeds <= found.p
    if gap == 0.3:
        assert found.p == found.least


@pytest.mark.parametrize(("seeds", "others"), [(3, 3), (5, 5), (3, 5), (7, 7)])
@pytest.mark.parametrize("gap", GAPS.values(), ids=GAPS)
def test_the_exact_p_without_pairs_is_scipys(seeds: int, others: int, gap: float) -> None:
    one, other = simulated(gap, max(seeds, others), np.random.default_rng(4))
    one, other = one[:seeds], other[:others]
    expected = stats.permutation_test((one, other), mean_difference, n_resamples=math.inf)
    found = unpaired_permutation(one, other)
    assert found.exact and found.p == pytest.approx(expected.pvalue, abs=1e-12)
    assert found.p >= found.least == 2 / math.comb(seeds + others, seeds)


def test_ties_count_as_in_whole_numbers() -> None:
    """Accuracies are shares of few hundred sentences: many arrangements tie, and rounding must not part them."""
    generator = np.random.default_rng(1)
    for _ in range(20):
        one, other = (generator.integers(240, 260, 8) for _ in range(2))
        sums = np.array(list(product((1, -1), repeat=8))) @ (one - other)
        observed = (one - other).sum()
        expected = min(1.0, 2 * min((sums >= observed).mean(), (sums <= observed).mean()))
        assert paired_permutation((one / 500 - other / 500).tolist()).p == expected
        pool = np.concatenate([one[:5], other[:5]])
        sums = np.array([sum(chosen) for chosen in combinations(pool, 5)])
        expected = min(1.0, 2 * min((sums >= one[:5].sum()).mean(), (sums <= one[:5].sum()).mean()))
        assert unpaired_permutation((one[:5] / 500).tolist(), (other[:5] / 500).tolist()).p == expected


@pytest.mark.parametrize("value", [0.008, 0.1, 0.3, 0.987, 33.3])
@pytest.mark.parametrize("seeds", [3, 5, 7])
def test_equal_values_are_no_difference(value: float, seeds: int) -> None:
    """Their sums differ by rounding alone."""
    assert unpaired_permutation([value] * seeds, [value] * seeds).p == 1
    assert paired_permutation([value - value] * seeds).p == 1


def test_what_so_many_seeds_can_give_at_the_least() -> None:
    found = {n: unpaired_permutation([0.0] * n, [1.0] * n).p for n in (3, 5)}
    assert found == {3: pytest.approx(0.1), 5: pytest.approx(2 / 252)}
    assert [paired_permutation([1.0] * n).p for n in (3, 5, 6)] == [0.25, 0.0625, 0.03125]
    assert paired_permutation([0.0] * 5).p == unpaired_permutation([0.0] * 5, [0.0] * 5).p == 1


@pytest.mark.parametrize("gap", [0.0, 0.01])
def test_many_seeds_are_drawn_and_come_near_the_exact_p(gap: float) -> None:
    one, other = simulated(gap, 15, np.random.default_rng(2))
    pairs = np.subtract(one, other).tolist()
    expected = stats.permutation_test((one, other), mean_difference, permutation_type="samples", n_resamples=math.inf)
    found = paired_permutation(pairs)
    assert not found.exact and found == paired_permutation(pairs)
    assert found.p == pytest.approx(expected.pvalue, abs=0.02)
    apart = unpaired_permutation([0.0] * 12, [1.0] * 12)
    assert not apart.exact and apart.p == apart.least == 2 / (PERMUTATIONS + 1)


@pytest.mark.parametrize("seeds", [3, 5, 10])
@pytest.mark.parametrize("shared", [0.0, 0.5])
def test_no_more_than_one_in_twenty_equal_encodings_is_told_apart(seeds: int, shared: float) -> None:
    """1,000 comparisons of equals, by both tests, whether or not runs of one seed have something in common."""
    generator = np.random.default_rng(seeds)
    wrong = {"paired": 0, "unpaired": 0}
    for _ in range(1000):
        one, other = simulated(0.0, seeds, generator, shared)
        wrong["paired"] += paired_permutation(np.subtract(one, other).tolist()).p <= 0.05
        if seeds < 10:  # 184,756 ways to deal ten and ten
            wrong["unpaired"] += unpaired_permutation(one, other).p <= 0.05
    assert max(wrong.values()) <= 60
    if seeds == 10 and shared == 0:
        assert wrong["paired"] > 25  # and the test is not blind


@pytest.mark.parametrize("seeds", [6, 10])
def test_what_differs_much_is_told_apart(seeds: int) -> None:
    generator = np.random.default_rng(seeds)
    ps = [paired_permutation(np.subtract(*simulated(0.3, seeds, generator)).tolist()).p for _ in range(50)]
    assert max(ps) <= 0.05


def outcomes(n: int, first: float, second: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """What two models make of the same sentences, some of which are hard for both."""
    generator = np.random.default_rng(seed)
    hardness = generator.random(n)
    return tuple((0.5 * hardness + 0.5 * generator.random(n)) < share for share in (first, second))  # type: ignore


@pytest.mark.parametrize(("n", "first", "second"), [(40, 0.5, 0.5), (500, 0.5, 0.53), (4000, 0.2, 0.6), (30, 1.0, 1.0)])
def test_mcnemar_is_statsmodels(n: int, first: float, second: float) -> None:
    one, other = outcomes(n, first, second, seed=1)
    table = [[(one & other).sum(), (one & ~other).sum()], [(~one & other).sum(), (~one & ~other).sum()]]
    found = mcnemar(one, other)
    assert found.p_exact == pytest.approx(reference_mcnemar(table, exact=True).pvalue, rel=1e-8)
    b, c = found.only_first, found.only_second
    assert [b, c] == [table[0][1], table[1][0]]
    mid = 2 * stats.binom.cdf(min(b, c), b + c, 0.5) - stats.binom.pmf(min(b, c), b + c, 0.5)
    assert found.p_mid == pytest.approx(mid, rel=1e-8) and found.p_mid <= found.p_exact


def test_mcnemar_as_published() -> None:
    """Airway hyper-responsiveness of 21 children before and after a transplant: 1 and 7 discordant pairs (Fagerland,
    Lydersen and Laake 2013, BMC Medical Research Methodology 13:91, table 1): exact p .0703, mid-p .0391."""
    first = np.array([True] * 1 + [True] * 1 + [False] * 7 + [False] * 12)
    second = np.array([True] * 1 + [False] * 1 + [True] * 7 + [False] * 12)
    found = mcnemar(first, second)
    assert (round(found.p_exact, 4), round(found.p_mid, 4)) == (0.0703, 0.0391)


@pytest.mark.parametrize("right", [0, 1, 7, 250, 499, 500])
def test_wilson_is_statsmodels(right: int) -> None:
    assert wilson(right / 500, 500) == pytest.approx(proportion_confint(right, 500, method="wilson"), abs=1e-12)


def test_holm_is_statsmodels() -> None:
    generator = np.random.default_rng(0)
    for size in (1, 2, 5, 30):
        ps = generator.random(size) ** 3
        ps[-1] = ps[0]
        assert holm(ps.tolist()) == pytest.approx(multipletests(ps, method="holm")[1].tolist())


@pytest.mark.parametrize("freedom", [*range(1, 12), 29, 200])
def test_students_quantile(freedom: int) -> None:
    assert t_quantile(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-9)


def test_an_interval_over_seeds_is_students() -> None:
    values = [0.5, 0.52, 0.47, 0.6, 0.55]
    expected = stats.t.interval(0.95, 4, loc=np.mean(values), scale=stats.sem(values))
    assert interval_over_seeds(values) == pytest.approx(expected)
    assert interval_over_seeds([0.5]) is None


def test_a_bootstrap_over_sentences_is_scipys() -> None:
    one, other = outcomes(2000, 0.5, 0.56, seed=3)
    difference = one.astype(float) - other
    expected = stats.bootstrap((difference,), np.mean, method="percentile", rng=np.random.default_rng(0))
    found = bootstrap_over_sentences(difference)
    assert found == pytest.approx(tuple(expected.confidence_interval), abs=1.5e-3)
    assert found == bootstrap_over_sentences(difference)
    assert bootstrap_over_sentences(np.zeros(10)) == (0.0, 0.0)
