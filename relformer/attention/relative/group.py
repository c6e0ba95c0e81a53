"""The blocks of one group of heads and sentences, forward and backward. All tensors are packed, (n, L, D)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from relformer.attention.relative import skew
from relformer.attention.relative.plan import Block, Group, Inputs, Plan, Rooms, Window
from relformer.attention.relative.terms import ByDistance, ByKey, Clipped, Full


class Part:
    def __init__(self, plan: Plan, given: Inputs, group: Group, rooms: Rooms) -> None:
        self.plan, self.given, self.group, self.rooms = plan, given, group, rooms
        self.k, self.v = group.pack(given.k), group.pack(given.v)
        self.by_query = self.by_distance(given.x_rows, plan.scale, plan.x_window)
        self.values = self.by_distance(given.value_rows, 1.0, plan.value_window)
        self.by_key: ByKey | None = None
        if given.y_rows is not None:
            self.y = self.k if given.y is None else group.pack(given.y)
            self.by_key = ByKey(group.rows(given.y_rows), given.k.shape[2], plan, rooms.by_key)

    def by_distance(self, rows: Tensor | None, scale: float, window: Window | None) -> ByDistance | None:
        if rows is None:
            return None
        rows = self.group.rows(rows)
        if window is None:
            return Full(rows, scale, self.given.q.shape[2])
        return Clipped(rows, scale, window, self.plan.start)

    def sides(self, block: Block) -> tuple[Tensor, Tensor]:
        """The block's queries, and what of them meets rows."""
        q, x = self.given.q, self.given.x
        packed = self.group.pack(q[:, :, block.queries])
        return packed, packed if x is None else self.group.pack(x[:, :, block.queries])

    def logits(self, block: Block, q: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """By distance, and by key as a view of it: -inf where a query must not look, anything where no pair stands.
        In a room that the next block uses again."""
        wide = skew.block(self.rooms.logits, len(q), block.rows, block.keys)
        if self.by_query is not None:
            self.by_query.make(wide, x, block)
        logits = skew.by_key(wide)
        beta = 0 if self.by_query is None else 1
        torch.baddbmm(logits, q, self.k[:, : block.keys].mT, beta=beta, alpha=self.plan.scale, out=logits)
        if self.by_key is not None:
            self.by_key.add(logits, self.y, block)
        self.plan.hide(logits, self.group, block)
        return wide, logits

    def forward(self, block: Block) -> tuple[Tensor, Tensor]:
        """Outputs (n, c, D) and log-sum-exps (n, c, 1)."""
        wide, weights = self.logits(block, *self.sides(block))
        most = weights.amax(-1, keepdim=True).clamp_(min=torch.finfo(weights.dtype).min)
        weights.sub_(most).exp_()
        total = weights.sum(-1, keepdim=True).clamp_(min=1.0)  # that of a query that sees a key is no less
        out = torch.bmm(weights, self.v[:, : block.keys])
        if self.values is not None:
            skew.clear_gaps(wide)
            out += self.values.mixed(self.values.sums(wide, block), block)
        return out.div_(total), most.add_(total.log_())

    def backward(self, block: Block, out: Tensor, lse: Tensor, grad: Tensor, grads: Inputs, sums: Sums) -> None:
        """Writes the gradients of the block's queries into `grads` and adds all others to `sums`."""
        group, scale, keys = self.group, self.plan.scale, slice(0, block.keys)
        q, x = self.sides(block)
        wide, weights = self.logits(block, q, x)
        weights.sub_(lse).exp_()
        skew.clear_gaps(wide)

        grad_wide = skew.block(self.rooms.other, len(q), block.rows, block.keys)
        if self.values is not None:
            self.values.make(grad_wide, grad, block)
            self.values.collect(self.values.sums(wide, block), grad, block, sums.value_rows)
        grad_weights = skew.by_key(grad_wide)
        beta = 0 if self.values is None else 1
        torch.baddbmm(grad_weights, grad, self.v[:, keys].mT, beta=beta, out=grad_weights)
        add_product(sums.v[:, keys], weights.mT, grad)

        grad_logits = weights.mul_(grad_weights.sub_((out * grad).sum(-1, keepdim=True)))
        grad_q = torch.bmm(grad_logits, self.k[:, keys]).mul_(scale)
        add_product(sums.k[:, keys], grad_logits.mT, q, scale)
        if self.by_query is not None:
            by_row = self.by_query.sums(wide, block)
            self.by_query.collect(by_row, x, block, sums.x_rows)
            grad_x = self.by_query.mixed(by_row, block)
            if grads.x is None:
                grad_q += grad_x
            else:
                group.put(grads.x[:, :, block.queries], grad_x)
        group.put(grads.q[:, :, block.queries], grad_q)
        if self.by_key is not None:
            self.by_key.back(grad_logits, self.y, block, sums.y, sums.y_rows)


class Sums(NamedTuple):
    """Gradients to which every block of a group adds: new ones of its keys, and views of those of all rows."""

    k: Tensor
    v: Tensor
    y: Tensor
    x_rows: Tensor | None
    y_rows: Tensor | None
    value_rows: Tensor | None

    @classmethod
    def of(cls, grads: Inputs, part: Part) -> Sums:
        k = torch.zeros_like(part.k)
        y = k if grads.y is None else torch.zeros_like(k)
        rows = (None if t is None else part.group.rows(t) for t in (grads.x_rows, grads.y_rows, grads.value_rows))
        return cls(k, torch.zeros_like(part.v), y, *rows)

    def put(self, grads: Inputs, group: Group) -> None:
        group.put(grads.k, self.k)
        group.put(grads.v, self.v)
        if grads.y is not None:
            group.put(grads.y, self.y)


def add_product(total: Tensor, left: Tensor, right: Tensor, scale: float = 1.0) -> None:
    torch.baddbmm(total, left, right, alpha=scale, out=total)
