"""What decoding keeps between steps: positions, and the keys and values of every layer.

Shapes: B sentences, N rows of the batch (B times the beams), H heads, K keys, T planned target tokens, D head size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from relformer.encodings.span import Positions


class Memory(NamedTuple):
    """Keys and values of one layer, (B, H, K, D), and the encoding's features (B, H, K, F).

    The keys are stored as the encoding says: through its `key` ("after", perhaps wider than D) or raw ("before").
    """

    k: Tensor
    v: Tensor
    features: Tensor | None

    def each(self, change: Callable[[Tensor], Tensor]) -> Memory:
        return Memory(change(self.k), change(self.v), None if self.features is None else change(self.features))


class GrowingMemory:
    """The memory of one layer's self-attention, which grows by the tokens of a step.

    Its tensors are allocated once, for the planned length and time first, (T, N, H, D), and held as attention reads
    them, (N, H, T, D): a step is one write of whole rows, and leaving out or reordering rows one `index_select`. A pass
    over all planned tokens at once, as in training, keeps what was projected: nothing is copied, and gradients flow. In
    steps they do not, since what autograd would need is written over.
    """

    def __init__(self, planned: int) -> None:
        self.planned = planned
        self.room: Memory | None = None
        self.spare: Memory | None = None
        self.written: Memory | None = None

    @property
    def k(self) -> Tensor:
        return self.seen.k

    @property
    def v(self) -> Tensor:
        return self.seen.v

    @property
    def seen(self) -> Memory:
        if self.written is None:
            raise ValueError("no token has been decoded yet")
        return self.written

    def extended(self, new: Memory, start: int) -> Memory:
        """With newer keys, of the tokens from `start` on: what attention reads."""
        count = new.v.shape[2]
        if count == self.planned:
            self.written = new
            return new
        if self.room is None:
            self.room = new.each(lambda part: self.allocated(part, len(part)))
        for room, part in zip(self.room, new, strict=True):
            if room is not None and part is not None:
                room.narrow(2, start, count).copy_(part)
        self.written = self.room.each(lambda room: room.narrow(2, 0, start + count))
        return self.written

    def allocated(self, like: Tensor, rows: int) -> Tensor:
        return like.new_empty(self.planned, rows, like.shape[1], like.shape[3]).permute(1, 2, 0, 3)

    def select(self, rows: Tensor, length: int) -> None:
        """Make row n what row rows[n] was; `length` tokens are written."""
        if self.room is None:
            self.written = None if self.written is None else self.written.each(lambda part: part[rows])
            return
        if self.spare is None or len(self.spare.v) != len(rows):
            self.spare = self.room.each(lambda room: self.allocated(room, len(rows)))
        for room, spare in zip(self.room, self.spare, strict=True):
            if room is not None and spare is not None:
                old, new = (part.narrow(2, 0, length).permute(2, 0, 1, 3) for part in (room, spare))
                torch.index_select(old, 1, rows, out=new)
        self.room, self.spare = self.spare, self.room
        self.written = self.room.each(lambda room: room.narrow(2, 0, length))


@dataclass(frozen=True)
class Encoded:
    """A source batch after the encoder: states (B, S, E), padding (B, S) True at tokens, and its positions.

    `padding` is None where every place is known to hold a token. `values` (B, S, E) is what cross-attention's value
    projections read.
    """

    states: Tensor
    padding: Tensor | None
    positions: Positions
    values: Tensor

    def select(self, sentences: Tensor) -> Encoded:
        padding = None if self.padding is None else self.padding[sentences]
        positions = rows_of(self.positions, sentences)
        return Encoded(self.states[sentences], padding, positions, self.values[sentences])


@dataclass
class Cache:
    """What decoding keeps: the target's positions, drawn for the whole planned length, and every layer's keys and
    values.

    Cross-attention's stand once a sentence; a stack that holds the source itself has none. Several rows of one
    sentence, its beams, lie side by side: row n is of sentence n // beams.
    """

    positions: Positions
    planned: int
    own: list[GrowingMemory]
    span_length: int
    """`Span.length` of every step, and that of cross-attention."""
    cross_span_length: int = 0
    encoded: Encoded | None = None
    cross: Sequence[Memory] = ()
    tables: list[Tensor | None] | None = None
    """The decoder's tables for all distances within the planned length; a step's are slices of them."""
    length: int = 0
    prefix: Tensor | None = None
    """(B,): of each sequence how many tokens at its beginning see each other whole, while these are read; or None."""

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        """Make row n what row rows[n] was. `sentences` lists those that stay, where some have left.

        The sentences' share of the rows must remain equal and in their order.
        """
        for memory in self.own:
            memory.select(rows, self.length)
        self.positions = rows_of(self.positions, rows)
        if sentences is not None and self.encoded is not None:
            self.encoded = self.encoded.select(sentences)
            self.cross = [memory.each(lambda part: part[sentences]) for memory in self.cross]


def rows_of(positions: Positions, rows: Tensor) -> Positions:
    """The positions of some rows; those drawn for all rows together stay."""
    return positions if isinstance(positions, range) or len(positions) == 1 else positions[rows]
