"""Which positions meet in one attention call, and the distances between them.

Positions are explicit everywhere: nothing infers a position from a tensor's shape, since a decode step has one query at
position t and t + 1 keys. A contiguous `range` is the ordinary case and costs no device synchronisation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

Positions = range | Tensor
"""Of one side of an attention call: a contiguous range, or (B | 1, L) integers, increasing strictly, where sampled."""


def as_tensor(positions: Positions, device: torch.device) -> Tensor:
    """Positions as (B | 1, L) int64."""
    if isinstance(positions, range):
        return torch.arange(positions.start, positions.stop, device=device)[None]
    return positions.to(device)


def part(positions: Positions, start: int, stop: int) -> Positions:
    """The positions of tokens start..stop-1 of a sequence."""
    return positions[start:stop] if isinstance(positions, range) else positions[:, start:stop]


def count(positions: Positions) -> int:
    return len(positions) if isinstance(positions, range) else positions.shape[1]


def pairs(values: Tensor, keys: int) -> Tensor:
    """Values by distance to pairs, for ranges: (H, Q + keys - 1) -> (H, Q, keys), contiguous.

    A row's values begin one column before those of the row above. (`flip` would give a transposed tensor here.)
    """
    upwards = values.unfold(-1, keys, 1)
    return upwards.index_select(-2, torch.arange(upwards.shape[-2] - 1, -1, -1, device=values.device))


class Relative:
    """Distances i - j of queries at i and keys at j; positive means that the key lies in the past."""

    def __init__(self, q: Positions, k: Positions, device: torch.device) -> None:
        self.q, self.k, self.device = q, k, device

    @property
    def contiguous(self) -> bool:
        """Whether both sides are ranges: then column r = j - i + (last i) of `distance` holds the pair (i, j)."""
        return isinstance(self.q, range) and isinstance(self.k, range)

    @cached_property
    def pairs(self) -> Tensor:
        """i - j for every pair: (B | 1, Q, K)."""
        return as_tensor(self.q, self.device)[:, :, None] - as_tensor(self.k, self.device)[:, None, :]

    @cached_property
    def past(self) -> Tensor | None:
        """Where the key stands at its query's position or before, (B | 1, Q, K); None where every key does, as in a
        step of one token."""
        if isinstance(self.q, range) and isinstance(self.k, range) and self.q.start >= self.k.stop - 1:
            return None
        return self.pairs >= 0

    @cached_property
    def _sampled(self) -> tuple[Tensor, Tensor]:
        distance, index = torch.unique(self.pairs, return_inverse=True)
        return distance, index

    @cached_property
    def distance(self) -> Tensor:
        """The distinct distances, (R,); for ranges Q + K - 1 of them, from the furthest past to the furthest future."""
        if isinstance(self.q, range) and isinstance(self.k, range):
            first, last = self.q.stop - 1 - self.k.start, self.q.start - (self.k.stop - 1)
            return torch.arange(first, last - 1, -1, device=self.device)
        return self._sampled[0]

    @cached_property
    def index(self) -> Tensor:
        """Where in `distance` each pair stands: (B | 1, Q, K)."""
        if isinstance(self.q, range) and isinstance(self.k, range):
            return self.q.stop - 1 - self.k.start - self.pairs
        return self._sampled[1]

    def expand(self, values: Tensor) -> Tensor:
        """Values by distance to pairs: (H, R) -> (B | 1, H, Q, K)."""
        if self.contiguous:
            if count(self.q) == 1:
                return values[None, :, None]
            return pairs(values, count(self.k))[None]
        return values[:, self.index].transpose(0, 1)

    def columns(self, whole: Tensor) -> Tensor:
        """These distances' columns, (H, R), of a table of all distances within n consecutive positions, (H, 2n - 1)."""
        assert isinstance(self.q, range) and isinstance(self.k, range)
        start = whole.shape[-1] // 2 - (self.q.stop - 1 - self.k.start)
        return whole[:, start : start + len(self.q) + len(self.k) - 1]


@dataclass(frozen=True)
class Span:
    """One attention call of one encoding. Made by the stack, in one place."""

    q: Positions
    k: Positions
    length: int
    """The length for which positions were drawn: the padded length, or the limit of a generation."""
    relative: Relative
    prepared: Any = None
    """What the encoding's `prepare` returned this step."""
    table: Tensor | None = None
    """(H, R) float32: the encoding's bias by `relative.distance`, made once a step."""

    @cached_property
    def pair_bias(self) -> Tensor | None:
        """The table by pairs, for all layers that share it: (B | 1, H, Q, K)."""
        return None if self.table is None else self.relative.expand(self.table)

    @classmethod
    def between(cls, q: Positions, k: Positions, length: int, device: torch.device) -> Span:
        return cls(q, k, length, Relative(q, k, device))

    @property
    def device(self) -> torch.device:
        return self.relative.device
