"""What rows by distance do to the logits of a block, and to their gradients.

Everything is packed: x (n, c, D) of the queries, y (n, K, D) of the keys, rows (H | 1, N, D), logits (n, c, keys).
"""

from __future__ import annotations

import torch
from torch import Tensor

from relformer.attention.relative import skew
from relformer.attention.relative.plan import Block, Plan


class ByQuery:
    """Queries meet a row for every distance. The logits of a block are themselves a view of the product, and so are
    their gradients."""

    def __init__(self, rows: Tensor, queries: int, scale: float) -> None:
        self.rows, self.queries, self.scale = rows, queries, scale

    def columns(self, block: Block) -> slice:
        """The distances between the queries and the keys of a block."""
        return slice(self.queries - block.queries.stop, self.queries - block.first + block.keys - 1)

    def start(self, room: Tensor, x: Tensor, block: Block) -> Tensor:
        """The logits, as far as they are made of x."""
        self.wide = skew.product(room, x, self.rows[:, self.columns(block)], self.scale)
        return skew.by_key(self.wide, block.keys)

    def back(self, x: Tensor, block: Block, grad: Tensor | None) -> Tensor:
        """The gradient of x, where that of the logits has been written over them; the rows' is added to `grad`."""
        skew.clear_gaps(self.wide)
        if grad is not None:
            skew.collect(grad[:, self.columns(block)], self.wide, x, self.scale)
        return skew.returned(self.wide, self.rows[:, self.columns(block)], self.scale)


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

    def into(self, logits: Tensor, y: Tensor, block: Block) -> None:
        for run, columns in self.parts(block):
            wide = skew.product(self.room, y[:, run].contiguous(), self.rows[:, columns], self.scale)
            logits[:, :, run] += skew.by_key(wide, block.rows).mT

    def back(self, logits: Tensor, y: Tensor, block: Block, grad_y: Tensor, grad: Tensor | None) -> None:
        """From the gradient of the logits to those of y and of the rows, which are added to."""
        for run, columns in self.parts(block):
            keys = run.stop - run.start
            wide = self.room[: len(y) * keys * (keys + block.rows - 1)].view(len(y), keys, -1)
            skew.by_key(wide, block.rows).copy_(logits[:, :, run].mT)
            skew.clear_gaps(wide)
            if grad is not None:
                skew.collect(grad[:, columns], wide, y[:, run].contiguous(), self.scale)
            grad_y[:, run] += skew.returned(wide, self.rows[:, columns], self.scale)


class Clipped:
    """Rows for the distances near 0, and one for all others of a side: never a column for each distance.

    Keys before the window and behind it are two rectangles; between them stands a band of rows, widened to both sides
    by c - 1 columns of the outer rows, so that its skewed view is full.
    """

    def __init__(self, plan: Plan, rows: Tensor, scale: float) -> None:
        assert plan.window is not None
        self.window, self.start, self.rows, self.scale = plan.window, plan.start, rows, scale
        self.band = 2 * plan.window.reach + 1

    def place(self, block: Block) -> tuple[int, int, int]:
        """The keys between which the band of a block stands, and its first column that is read."""
        left = self.start + block.first - self.window.reach
        low, high = (min(max(key, 0), block.keys) for key in (left, left + block.rows - 1 + self.band))
        return low, high, low - left

    def into(self, logits: Tensor, x: Tensor, block: Block) -> None:
        """Adds x · rows."""
        by_row = skew.product(x.new_empty(x.shape[0] * x.shape[1] * self.rows.shape[1]), x, self.rows, self.scale)
        past, future = (by_row[:, :, side, None] for side in (self.window.past, self.window.future))
        low, high, column = self.place(block)
        logits[:, :, :low] += past
        logits[:, :, high:] += future
        if low < high:
            sides = (side.expand(-1, -1, block.rows - 1) for side in (past, future))
            before, after = sides
            wide = torch.cat((before, by_row[:, :, : self.band], after), -1)
            logits[:, :, low:high] += skew.by_key(wide, high - low, column)

    def sums(self, logits: Tensor, block: Block) -> Tensor:
        """Sums by row of weights, or of gradients: (n, c, keys) -> (n, c, N). The adjoint of what `into` does."""
        low, high, column = self.place(block)
        by_row = logits.new_zeros(*logits.shape[:2], self.rows.shape[1])
        past, future = (by_row[:, :, side] for side in (self.window.past, self.window.future))
        if low < high:
            edge = block.rows - 1
            wide = logits.new_zeros(*logits.shape[:2], self.band + 2 * edge)
            skew.by_key(wide, high - low, column).copy_(logits[:, :, low:high])
            by_row[:, :, : self.band] = wide[:, :, edge : edge + self.band]
            past += wide[:, :, :edge].sum(-1)
            future += wide[:, :, edge + self.band :].sum(-1)
        past += logits[:, :, :low].sum(-1)
        future += logits[:, :, high:].sum(-1)
        return by_row
