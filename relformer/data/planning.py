"""Which examples make which batch: a pure function of (seed, number of the batch), the same on every rank.

Each rank takes its share of every global batch, so that more devices see the same batches in another split, all ranks
have equally many, and a resumed run continues at its step without any stored state.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from torch.utils.data import Sampler

from relformer.data.batching import FILLER, Frame, Plan
from relformer.data.encoded import EncodedSet, Integers, generator
from relformer.data.mixing import Mixture


@dataclass(frozen=True)
class Share:
    """Which part of each batch is ours: rank of world; `accumulate` batches make one optimizer step."""

    rank: int = 0
    world: int = 1
    accumulate: int = 1

    def of(self, rows: list[int]) -> tuple[int, ...]:
        return tuple(rows[self.rank :: self.world]) or (FILLER,)


class Order(ABC):
    """An endless sequence of global batches."""

    @abstractmethod
    def batch(self, number: int) -> tuple[int, list[int]]:
        """The epoch that global batch `number` begins in, and its rows."""

    @abstractmethod
    def per_epoch(self) -> float:
        """How many batches make an epoch."""


class ByNumber(Order):
    """`size` random examples a batch, out of one shuffled epoch after another.

    A batch may hold the end of one epoch and the beginning of the next: no example is dropped, no batch is short.
    """

    def __init__(self, examples: EncodedSet, size: int, seed: int, mixture: Mixture | None = None) -> None:
        self.size, self.seed, self.examples, self.mixture = size, seed, len(examples), mixture
        self.order = lru_cache(maxsize=2)(self._order)

    def _order(self, epoch: int) -> list[int]:
        rows = list(range(self.examples)) if self.mixture is None else self.mixture.rows(epoch).tolist()
        random.Random(f"{self.seed}/order/{epoch}").shuffle(rows)
        return rows

    def batch(self, number: int) -> tuple[int, list[int]]:
        places = range(number * self.size, (number + 1) * self.size)
        rows = [self.order(place // self.examples)[place % self.examples] for place in places]
        return places.start // self.examples, rows

    def per_epoch(self) -> float:
        return self.examples / self.size


class ByTokens(Order):
    """Examples of like length, as many as a token budget holds on each of `world` devices; batches in random order.

    The whole epoch is sorted by (source, target) length with random ties and cut where count x longest side would
    exceed the budget, so that little of a batch is padding. Lengths are positions, BOS and EOS counted.
    """

    def __init__(
        self,
        examples: EncodedSet,
        max_tokens: int,
        seed: int,
        world: int = 1,
        frame: Frame = Frame(),  # noqa: B008  frozen
        most: int | None = None,
        mixture: Mixture | None = None,
    ) -> None:
        self.source = frame.source_positions(examples.source_lengths)
        self.target = frame.target_positions(examples.target_lengths)
        self.budget, self.seed, self.world, self.most, self.mixture = max_tokens, seed, world, most, mixture
        self.batches = lru_cache(maxsize=2)(self._batches)
        self.starts = [0]
        """The number of the first batch of every epoch known so far; a mixture's epochs differ in batches."""

    def _batches(self, epoch: int) -> list[Integers]:
        rows = np.arange(len(self.source)) if self.mixture is None else self.mixture.rows(epoch)
        ties = generator(self.seed, epoch).permutation(len(rows))
        rows = rows[np.lexsort((ties, self.target[rows], self.source[rows]))]
        cuts = self.cuts(np.maximum(self.source[rows], self.target[rows]))
        batches = np.split(rows, cuts)
        random.Random(f"{self.seed}/batches/{epoch}").shuffle(batches)
        return batches

    def cuts(self, lengths: Integers) -> list[int]:
        """Where batches begin but for the first, for examples of these lengths in this order."""
        cuts, first, longest = [], 0, 0
        for place, length in enumerate(lengths.tolist()):
            longest = max(longest, length)
            room = max(self.budget // longest, 1) * self.world
            if place - first + 1 > (room if self.most is None else min(room, self.most)):
                cuts.append(place)
                first, longest = place, length
        return cuts

    def batch(self, number: int) -> tuple[int, list[int]]:
        if self.mixture is None:
            epoch, place = divmod(number, len(self.batches(0)))
        else:
            while self.starts[-1] <= number:
                self.starts.append(self.starts[-1] + len(self.batches(len(self.starts) - 1)))
            epoch = next(e for e in range(len(self.starts) - 1, -1, -1) if self.starts[e] <= number)
            place = number - self.starts[epoch]
        return epoch, self.batches(epoch)[place].tolist()

    def per_epoch(self) -> float:
        return len(self.batches(0))

    def padding(self) -> float:
        """The share of the positions of an epoch, both sides together, that are padding on one device."""
        area = sum(len(rows) * int(self.source[rows].max() + self.target[rows].max()) for rows in self.batches(0))
        return 1 - float(sum((self.source[rows] + self.target[rows]).sum() for rows in self.batches(0))) / area


class TrainingPlans(Sampler[Plan]):
    """This rank's share of an order's batches, endless, from batch `start` on.

    The loss of a rank is divided by the target tokens of the whole optimizer step / (world * accumulate), which, after
    the averaging over ranks and accumulated batches, normalises by the global number of tokens.
    """

    def __init__(self, order: Order, labels: Integers, share: Share, start: int = 0) -> None:
        self.order, self.labels, self.share, self.start = order, labels, share, start

    def __iter__(self) -> Iterator[Plan]:
        world, accumulate = self.share.world, self.share.accumulate
        number = self.start
        while True:
            window = [self.order.batch(number + offset) for offset in range(accumulate)]
            tokens = sum(int(self.labels[rows].sum()) for _, rows in window)
            for epoch, rows in window:
                yield Plan(self.share.of(rows), tokens / (world * accumulate), epoch)
            number += accumulate


class EvaluationPlans(Sampler[Plan]):
    """Every example once, neighbours in length together; each rank gets equally many batches, all of them non-empty."""

    def __init__(
        self,
        examples: EncodedSet,
        size: int,
        share: Share,
        max_tokens: int | None = None,
        frame: Frame = Frame(),  # noqa: B008  frozen
    ) -> None:
        order = np.lexsort((examples.source_lengths, examples.target_lengths))
        if max_tokens is None:
            batches = [order[first : first + size] for first in range(0, len(order), size)]
        else:
            budget = ByTokens(examples, max_tokens, 0, share.world, frame, size)
            batches = np.split(order, budget.cuts(np.maximum(budget.source[order], budget.target[order])))
        self.plans = [Plan(share.of(rows.tolist())) for rows in batches]

    def __len__(self) -> int:
        return len(self.plans)

    def __iter__(self) -> Iterator[Plan]:
        return iter(self.plans)
