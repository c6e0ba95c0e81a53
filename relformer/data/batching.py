"""Batches as tensors: padding, BOS and EOS around bare examples."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.data import Dataset

from relformer.data.encoded import EncodedSet, Ids, Integers
from relformer.data.vocabulary import BOS, EOS, PAD

FILLER = -1
"""The row of a rank that has no example in a batch: it is padded to nothing and counts nowhere."""


@dataclass(frozen=True)
class Plan:
    """One rank's share of a batch: rows of the set (or FILLER), what its loss is divided by, and the epoch."""

    rows: tuple[int, ...]
    tokens: float = 1.0
    epoch: int = 0


@dataclass
class Batch:
    """B examples, right-padded: `index` (B,), `source` (B, S), `target` from BOS (B, T), `labels` to EOS (B, T).

    `positions` (B, S) are the source tokens' where the user gave them; they go on counting through the padding.
    """

    index: Tensor
    source: Tensor
    target: Tensor
    labels: Tensor
    tokens: float
    positions: Tensor | None = None


@dataclass(frozen=True)
class Frame:
    """What stands around the bare sequences: BOS before a source where `bos`, EOS after a target where `eos`.

    Every source ends with EOS and every target begins with BOS. Without EOS a target says nothing of where it stops
    (Newman et al. 2020, arXiv:2010.07174).
    """

    bos: bool = True
    eos: bool = True

    def source(self, ids: Ids) -> list[int]:
        return [BOS, *ids, EOS] if self.bos else [*ids, EOS]

    def target(self, ids: Ids) -> list[int]:
        return [BOS, *ids] if self.eos else [BOS, *ids][:-1]

    def labels(self, ids: Ids) -> list[int]:
        return [*ids, EOS] if self.eos else list(ids)

    def positions(self, given: Ids) -> list[int]:
        """Of a framed source: BOS takes position 0 and moves the others up by one, EOS follows the last."""
        ours = [0, *(each + 1 for each in given)] if self.bos else list(given)
        return [*ours, ours[-1] + 1]

    def source_positions(self, lengths: Integers) -> Integers:
        return lengths + self.bos + 1

    def target_positions(self, lengths: Integers) -> Integers:
        return lengths + self.eos


class Batches(Dataset[Batch]):
    """A set of examples, indexed by plans."""

    def __init__(self, examples: EncodedSet, frame: Frame = Frame()) -> None:
        self.examples, self.frame = examples, frame

    def __getitem__(self, plan: Plan) -> Batch:
        pairs = [self.examples.pair(max(row, 0), plan.epoch) for row in plan.rows]
        labels = [
            [PAD] if row == FILLER else self.frame.labels(t) for row, (_, t) in zip(plan.rows, pairs, strict=True)
        ]
        given = self.examples.positions
        return Batch(
            index=torch.tensor(plan.rows),
            source=padded([self.frame.source(source) for source, _ in pairs]),
            target=padded([self.frame.target(t)[: len(ids)] for ids, (_, t) in zip(labels, pairs, strict=True)]),
            labels=padded(labels),
            tokens=plan.tokens,
            positions=None if given is None else continued([self.frame.positions(given[max(r, 0)]) for r in plan.rows]),
        )


def padded(rows: list[list[int]]) -> Tensor:
    """Rows of ids, right-padded: (B, longest)."""
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


def continued(rows: list[list[int]]) -> Tensor:
    """Rows of increasing positions, going on by one to the longest: (B, longest)."""
    longest = max(map(len, rows))
    return torch.tensor([row + [row[-1] + n for n in range(1, longest - len(row) + 1)] for row in rows])
