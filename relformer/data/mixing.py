"""Mixing corpora by weight: which rows make an epoch, as a pure function of (seed, epoch)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from relformer.data.encoded import Integers, generator


class Mixture:
    """Epochs as long as all corpora together, of which each corpus fills its share.

    A corpus gives its rows in shuffled passes, one after another over the epochs, so that within a pass each is seen
    once, whatever the weight.

    Args:
        corpora: the number of the corpus each row is of.
        shares: what part of an epoch each corpus fills; they sum to 1.
    """

    def __init__(self, corpora: Integers, shares: Sequence[float], seed: int) -> None:
        self.rows_of = [np.flatnonzero(corpora == number) for number in range(len(shares))]
        self.seed = seed
        edges = np.rint(np.cumsum([0.0, *shares]) * len(corpora)).astype(int)
        self.quotas: list[int] = np.diff(edges).tolist()

    def rows(self, epoch: int) -> Integers:
        """The rows of an epoch, corpus by corpus."""
        return np.concatenate([self.drawn(number, epoch) for number in range(len(self.quotas))])

    def drawn(self, number: int, epoch: int) -> Integers:
        rows, quota = self.rows_of[number], self.quotas[number]
        first, last = epoch * quota, (epoch + 1) * quota
        passes = [
            generator(self.seed, number, each).permutation(rows)
            for each in range(first // len(rows), -(-last // len(rows)))
        ]
        start = first - first // len(rows) * len(rows)
        return np.concatenate(passes)[start : start + quota] if passes else rows[:0]


def shares(sizes: Sequence[int], weights: Sequence[float] | None, temperature: float | None) -> list[float] | None:
    """The share of each corpus: by weight, or by size^(1/temperature) (Arivazhagan et al. 2019, arXiv:1907.05019).

    None where neither is given: each pair once an epoch.
    """
    if weights is None and temperature is None:
        return None
    raw = np.asarray(weights if weights is not None else np.power(sizes, 1 / temperature), dtype=float)  # type: ignore[operator]
    return (raw / raw.sum()).tolist()
