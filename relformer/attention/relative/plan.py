"""What goes into one call, what stays the same over its blocks, and how the blocks are cut.

Shapes: B batch, H heads, Q queries, K keys, n pairs of (head, sentence) in a group, c queries of a block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from relformer.encodings import Span
from relformer.encodings.relative import Clip


class Inputs(NamedTuple):
    """What gradients flow to, and then the gradients; None where the encoding
    has no such term."""

    q: Tensor
    k: Tensor
    v: Tensor
    x: Tensor | None
    """(B, H, Q, D) that meets x_rows; None where q does."""
    x_rows: Tensor | None
    """(H | 1, N, D)."""
    y: Tensor | None
    """(B, H, K, D) that meets y_rows; None where k does."""
    y_rows: Tensor | None
    """(H | 1, N, D), whose distances run the other way."""
    value_rows: Tensor | None
    """(H | 1, N, D)."""


class Window(NamedTuple):
    """The clipped rows that a call can read: of all those of the table, no more than reach to both sides."""

    first: int
    reach: int
    past: int
    future: int

    @classmethod
    def of(cls, clip: Clip, span: Span) -> Window:
        assert isinstance(span.q, range) and isinstance(span.k, range)
        furthest = max(abs(span.q.stop - 1 - span.k.start), abs(span.k.stop - 1 - span.q.start))
        if furthest >= clip.reach:
            return cls(0, *clip)
        return cls(clip.reach - furthest, furthest, 0, 0)

    def trimmed(self, rows: Tensor) -> Tensor:
        return rows if self.first == 0 else rows[:, self.first : self.first + 2 * self.reach + 1]


class Group(NamedTuple):
    """Heads and sentences that are computed together, ordered head by head."""

    heads: slice
    batch: slice

    @property
    def size(self) -> int:
        return (self.heads.stop - self.heads.start) * (self.batch.stop - self.batch.start)

    def part(self, x: Tensor) -> Tensor:
        """The group's part of (B, H, ...), as a view."""
        return x[self.batch, self.heads].transpose(0, 1)

    def pack(self, x: Tensor) -> Tensor:
        """(B, H, ...) -> (n, ...), contiguous."""
        part = self.part(x)
        return part.reshape(-1, *part.shape[2:]).contiguous()

    def put(self, x: Tensor, packed: Tensor) -> None:
        """Writes what `pack` would read."""
        part = self.part(x)
        part.copy_(packed.view(part.shape))

    def rows(self, table: Tensor) -> Tensor:
        """Of rows (H | 1, N, D), those of the heads."""
        return table if len(table) == 1 else table[self.heads]


class Block(NamedTuple):
    """A run of queries, and how many keys there are up to the last that one of them may see."""

    queries: slice
    keys: int

    @property
    def first(self) -> int:
        return int(self.queries.start)

    @property
    def rows(self) -> int:
        return int(self.queries.stop - self.queries.start)


class Rooms(NamedTuple):
    """Flat buffers that every block uses."""

    logits: Tensor
    other: Tensor
    by_key: Tensor


@dataclass(frozen=True)
class Plan:
    scale: float
    start: int
    """The position of the first query, where that of the first key is 0."""
    causal: bool
    padding: Tensor | None
    """(B, K) bool, True where the key is a token."""
    x_window: Window | None
    value_window: Window | None
    """Where rows are clipped ones."""
    chunk: int
    """Bytes of logits held at once."""
    most_rows: int
    most_keys: int

    def rows(self, given: Inputs) -> int:
        """The queries of a block."""
        held = self.chunk // (given.q.element_size() * given.k.shape[2])
        return max(1, min(given.q.shape[2], self.most_rows, held))

    def most(self, given: Inputs) -> int:
        """How many pairs of head and sentence go together."""
        rows = self.rows(given)
        return max(1, self.chunk // (given.q.element_size() * rows * (given.k.shape[2] + rows)))

    def groups(self, given: Inputs) -> Iterator[Group]:
        batch, heads = given.q.shape[:2]
        most = self.most(given)
        step = max(1, most // batch)
        for h in range(0, heads, step):
            for b in range(0, batch, most):
                yield Group(slice(h, min(h + step, heads)), slice(b, min(b + most, batch)))

    def blocks(self, given: Inputs) -> Iterator[Block]:
        """Those that see a key."""
        queries, keys, rows = given.q.shape[2], given.k.shape[2], self.rows(given)
        for first in range(0, queries, rows):
            last = min(first + rows, queries)
            seen = min(keys, self.start + last) if self.causal else keys
            if seen > 0:
                yield Block(slice(first, last), seen)

    def rooms(self, given: Inputs) -> Rooms:
        n, c, keys = next(self.groups(given)).size, self.rows(given), given.k.shape[2]
        e = min(self.most_keys, keys)
        empty = given.q.new_empty
        logits = n * c * (keys + c - 1)
        return Rooms(empty(logits), empty(logits), empty(n * e * (c + e - 1)))

    def hide(self, logits: Tensor, group: Group, block: Block) -> None:
        """-inf where a query must not look, in place: (n, c, keys)."""
        position = self.start + block.first
        if self.causal and block.keys > position + 1:
            first = max(0, position + 1)
            i = torch.arange(position, position + block.rows)
            future = torch.arange(first, block.keys) > i[:, None]
            logits[:, :, first:].masked_fill_(future, float("-inf"))
        if self.padding is not None:
            hidden = ~self.padding[group.batch, : block.keys]
            logits.masked_fill_(hidden.repeat(group.heads.stop - group.heads.start, 1)[:, None], float("-inf"))
