"""What rows by distance do to a block: they make it from queries, and give back what it becomes, gradient or weights.

Everything is packed, head by head: x (n, c, D) of the queries, y (n, K, D) of the keys, rows (H | 1, N, D), and blocks
by distance (n, c, W), as in `skew`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

from relformer.attention.relative import skew
from relformer.attention.relative.plan import Block, Plan, Window


class ByDistance(ABC):
    """Rows that meet queries, their gradients, or weights: all of them a block by distance."""

    def __init__(self, rows: Tensor, scale: float) -> None:
        self.rows, self.scale = rows, scale

    @abstractmethod
    def part(self, table: Tensor, block: Block) -> Tensor:
        """Those of a table like `rows` that a block meets: (H | 1, M, D), a view."""

    @abstractmethod
    def make(self, wide: Tensor, x: Tensor, block: Block) -> None:
        """Writes scale x · rows into a block by distance."""

    @abstractmethod
    def sums(self, wide: Tensor, block: Block) -> Tensor:
        """A block by distance, gaps cleared, summed by row: (n, c, M). The adjoint of `make`."""

    def mixed(self, sums: Tensor, block: Block) -> Tensor:
        """Sums by row times the rows: (n, c, D)."""
        return skew.product_back(sums, self.part(self.rows, block), self.scale)

    def collect(self, sums: Tensor, x: Tensor, block: Block, grad: Tensor | None) -> None:
        """Adds the gradient of the rows to `grad`, where it is wanted."""
        if grad is not None:
            skew.collect(self.part(grad, block), sums, x, self.scale)


class Full(ByDistance):
    """A row for every distance between the queries and keys of the call."""

    def __init__(self, rows: Tensor, scale: float, queries: int) -> None:
        super().__init__(rows, scale)
        self.queries = queries

    def part(self, table: Tensor, block: Block) -> Tensor:
        return table[:, self.queries - block.queries.stop : self.queries - block.first + block.keys - 1]

    def make(self, wide: Tensor, x: Tensor, block: Block) -> None:
        skew.product(wide, x, self.part(self.rows, block), self.scale)

    def sums(self, wide: Tensor, block: Block) -> Tensor:
        return wide


class Clipped(ByDistance):
    """Rows for the distances near 0, and one for all others of a side: no distance outside has a product of its own."""

    def __init__(self, rows: Tensor, scale: float, window: Window, start: int) -> None:
        super().__init__(rows, scale)
        self.window, self.start = window, start

    def part(self, table: Tensor, block: Block) -> Tensor:
        return table

    def columns(self, block: Block) -> tuple[int, int, int]:
        """The columns between which the window stands in a block, and the row of the first of them."""
        reach, here = self.window.reach, block.rows - 1 + self.start + block.first
        low, high = (min(max(c, 0), block.keys + block.rows - 1) for c in (here - reach, here + reach + 1))
        return low, high, low - here + reach

    def make(self, wide: Tensor, x: Tensor, block: Block) -> None:
        by_row = skew.product(x.new_empty(*x.shape[:2], self.rows.shape[1]), x, self.rows, self.scale)
        low, high, row = self.columns(block)
        wide[:, :, :low] = by_row[:, :, self.window.past, None]
        wide[:, :, low:high] = by_row[:, :, row : row + high - low]
        wide[:, :, high:] = by_row[:, :, self.window.future, None]

    def sums(self, wide: Tensor, block: Block) -> Tensor:
        by_row = wide.new_zeros(*wide.shape[:2], self.rows.shape[1])
        low, high, row = self.columns(block)
        by_row[:, :, row : row + high - low] = wide[:, :, low:high]
        by_row[:, :, self.window.past] += wide[:, :, :low].sum(-1)
        by_row[:, :, self.window.future] += wide[:, :, high:].sum(-1)
        return by_row


class ByKey:
    """Keys meet a row for every distance, in reversed order: what queries do, with the roles exchanged. A few keys at a
    time, since c queries and e keys meet e + c - 1 distances."""

    def __init__(self, rows: Tensor, keys: int, plan: Plan, room: Tensor) -> None:
        self.rows, self.keys, self.scale, self.step, self.room = rows, keys, plan.scale, plan.most_keys, room

    def parts(self, block: Block) -> list[tuple[slice, slice]]:
        """Runs of keys, and the distances between each and the queries."""
        runs = [slice(n, min(n + self.step, block.keys)) for n in range(0, block.keys, self.step)]
        base = self.keys + block.first
        return [(run, slice(base - run.stop, base - run.start + block.rows - 1)) for run in runs]

    def add(self, logits: Tensor, y: Tensor, block: Block) -> None:
        """Adds scale y · rows to logits by key."""
        for run, columns in self.parts(block):
            part = y[:, run].contiguous()
            wide = skew.block(self.room, len(y), part.shape[1], block.rows)
            skew.product(wide, part, self.rows[:, columns], self.scale)
            logits[:, :, run] += skew.by_key(wide).mT

    def back(self, logits: Tensor, y: Tensor, block: Block, grad_y: Tensor, grad: Tensor | None) -> None:
        """From the gradient of logits to those of y and, where wanted, of the rows, which are added to."""
        for run, columns in self.parts(block):
            part = y[:, run].contiguous()
            wide = skew.block(self.room, len(y), part.shape[1], block.rows)
            skew.by_key(wide).copy_(logits[:, :, run].mT)
            skew.clear_gaps(wide)
            if grad is not None:
                skew.collect(grad[:, columns], wide, part, self.scale)
            grad_y[:, run] += skew.product_back(wide, self.rows[:, columns], self.scale)
