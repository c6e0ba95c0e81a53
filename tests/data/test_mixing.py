"""Several corpora by weight: shares of an epoch, passes without repetition, the same rows again at a resume."""

from collections import Counter

import numpy as np
import pytest

from relformer.data.encoded import EncodedSet
from relformer.data.mixing import Mixture, shares
from relformer.data.planning import ByNumber, ByTokens, Order

CORPORA = np.repeat([0, 1, 2], [70, 20, 10])


@pytest.mark.parametrize("weights", [[1, 1, 1], [0.7, 0.2, 0.1], [1, 2, 30]])
def test_each_corpus_fills_its_share(weights: list[float]) -> None:
    share = shares([70, 20, 10], weights, None)
    assert share is not None
    mixture = Mixture(CORPORA, share, 0)
    for epoch in range(3):
        rows = mixture.rows(epoch)
        assert len(rows) == 100
        counts = np.bincount(CORPORA[rows], minlength=3)
        assert np.abs(counts - 100 * np.array(share)).max() <= 1


def test_a_corpus_is_passed_through_before_it_repeats() -> None:
    mixture = Mixture(CORPORA, [0.5, 0.25, 0.25], 0)
    drawn = np.concatenate([mixture.rows(epoch) for epoch in range(4)])
    for number, size in ((0, 70), (1, 20), (2, 10)):
        mine = drawn[CORPORA[drawn] == number].tolist()
        for first in range(0, len(mine) - size + 1, size):
            assert len(set(mine[first : first + size])) == size
        counts = Counter(mine)
        assert max(counts.values()) - min(counts[row] for row in np.flatnonzero(number == CORPORA)) <= 1


def test_temperature_evens_out_and_one_is_by_size() -> None:
    assert shares([900, 100], None, 1.0) == pytest.approx([0.9, 0.1])
    assert shares([900, 100], None, 2.0) == pytest.approx([0.75, 0.25])
    assert shares([900, 100], None, None) is None


def corpus(weights: list[float]) -> EncodedSet:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 20, 100).tolist()
    return EncodedSet([[3] * n for n in lengths], [[4] * n for n in lengths], corpora=CORPORA, shares=weights)


@pytest.mark.parametrize("kind", ["number", "tokens"])
def test_batches_of_a_mixture_are_a_function_of_their_number(kind: str) -> None:
    made = corpus([0.2, 0.3, 0.5])
    assert made.shares is not None and made.corpora is not None

    def order() -> Order:
        mixture = Mixture(CORPORA, [0.2, 0.3, 0.5], 0)
        return ByNumber(made, 8, 0, mixture) if kind == "number" else ByTokens(made, 64, 0, mixture=mixture)

    once = order()
    whole = [once.batch(number) for number in range(80)]
    assert [order().batch(number) for number in (79, 3, 40)] == [whole[79], whole[3], whole[40]]
    counts = np.bincount(CORPORA[[row for _, rows in whole for row in rows]], minlength=3)
    assert counts / counts.sum() == pytest.approx([0.2, 0.3, 0.5], abs=0.03)
    assert {epoch for epoch, _ in whole} >= {0, 1, 2}
