"""Which examples make which batch, as a pure function of (seed, step, rank), and batches as tensors.

Every rank plans the same global batches and takes its share of each, so that more devices see the same batches in
another split, all ranks have equally many, and a resumed run continues at its step without any stored state.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.utils.data import Dataset, Sampler

from relformer.data.corpus import EncodedSet
from relformer.data.vocabulary import BOS, EOS, PAD


@dataclass(frozen=True)
class Plan:
    """One rank's share of a batch: rows of the set (FILLER where a rank has none), and what its loss is divided by."""

    rows: tuple[int, ...]
    tokens: float = 1.0


FILLER = -1


@dataclass
class Batch:
    """B examples, right-padded: `index` (B,), `source` (B, S), `target` from BOS (B, T), `labels` to EOS (B, T)."""

    index: Tensor
    source: Tensor
    target: Tensor
    labels: Tensor
    tokens: float


@dataclass(frozen=True)
class Share:
    """Which part of each batch is ours: rank of world; `accumulate` batches make one optimizer step."""

    rank: int = 0
    world: int = 1
    accumulate: int = 1


class TrainingPlans(Sampler[Plan]):
    """An endless stream of batches from `start` on, out of one shuffled epoch after another.

    A batch may hold the end of one epoch and the beginning of the next: no example is dropped, no batch is short. The
    loss of a rank is divided by the target tokens of the whole optimizer step / (world * accumulate), which, after the
    averaging over ranks and accumulated batches, normalises by the global number of tokens.
    """

    def __init__(self, examples: EncodedSet, batch_size: int, seed: int, share: Share, start: int = 0) -> None:
        self.lengths = [len(target) + 1 for target in examples.targets]
        self.batch_size, self.seed, self.share, self.start = batch_size, seed, share, start
        self.order = lru_cache(maxsize=2)(self._order)

    def _order(self, epoch: int) -> list[int]:
        order = list(range(len(self.lengths)))
        random.Random(f"{self.seed}/order/{epoch}").shuffle(order)
        return order

    def batch(self, number: int) -> list[int]:
        """The rows of global batch `number`."""
        places = range(number * self.batch_size, (number + 1) * self.batch_size)
        return [self.order(place // len(self.lengths))[place % len(self.lengths)] for place in places]

    def __iter__(self) -> Iterator[Plan]:
        rank, world, accumulate = self.share.rank, self.share.world, self.share.accumulate
        number = self.start
        while True:
            window = [self.batch(number + offset) for offset in range(accumulate)]
            tokens = sum(self.lengths[row] for rows in window for row in rows)
            for rows in window:
                yield Plan(tuple(rows[rank::world]), tokens / (world * accumulate))
            number += accumulate


class EvaluationPlans(Sampler[Plan]):
    """Every example once, neighbours in length together; each rank gets equally many batches, all of them non-empty."""

    def __init__(self, examples: EncodedSet, batch_size: int, share: Share) -> None:
        sizes = [(len(t), len(s)) for s, t in zip(examples.sources, examples.targets, strict=True)]
        order = sorted(range(len(sizes)), key=lambda row: sizes[row])
        batches = [order[first : first + batch_size] for first in range(0, len(order), batch_size)]
        self.plans = [Plan(tuple(rows[share.rank :: share.world]) or (FILLER,)) for rows in batches]

    def __len__(self) -> int:
        return len(self.plans)

    def __iter__(self) -> Iterator[Plan]:
        return iter(self.plans)


class Batches(Dataset[Batch]):
    """A set of examples, indexed by plans."""

    def __init__(self, examples: EncodedSet) -> None:
        self.examples = examples

    def __getitem__(self, plan: Plan) -> Batch:
        rows = [max(row, 0) for row in plan.rows]
        targets = [self.examples.targets[row] for row in rows]
        return Batch(
            index=torch.tensor(plan.rows),
            source=padded([self.examples.sources[row] for row in rows]),
            target=padded([[BOS, *target] for target in targets]),
            labels=padded([[*target, EOS] for target in targets]),
            tokens=plan.tokens,
        )


def padded(rows: list[list[int]]) -> Tensor:
    """Rows of ids, right-padded: (B, longest)."""
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])
