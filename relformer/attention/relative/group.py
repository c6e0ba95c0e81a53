"""The blocks of one group of heads and sentences, forward and backward. All tensors are packed, (n, L, D)."""

from __future__ import annotations

import torch
from torch import Tensor

from relformer.attention.relative import skew
from relformer.attention.relative.plan import Block, Group, Inputs, Plan, Rooms
from relformer.attention.relative.terms import ByKey, ByQuery, Clipped


class Part:
    def __init__(self, plan: Plan, given: Inputs, group: Group, rooms: Rooms) -> None:
        self.plan, self.given, self.group, self.rooms = plan, given, group, rooms
        self.k, self.v = group.pack(given.k), group.pack(given.v)
        self.y = None if given.y is None else group.pack(given.y)
        self.by_query: ByQuery | None = None
        self.clipped: Clipped | None = None
        if given.x_rows is not None and plan.window is None:
            self.by_query = ByQuery(group.rows(given.x_rows), given.q.shape[2], plan.scale)
        elif given.x_rows is not None:
            self.clipped = Clipped(plan, group.rows(given.x_rows), plan.scale)
        self.by_key: ByKey | None = None
        if given.y_rows is not None:
            self.by_key = ByKey(group.rows(given.y_rows), given.k.shape[2], plan, rooms.by_key)
        self.values = None if given.value_rows is None else Clipped(plan, group.rows(given.value_rows), 1.0)

    def sides(self, block: Block) -> tuple[Tensor, Tensor | None]:
        """The block's queries, and what of them meets rows."""
        q, x = self.given.q, self.given.x
        return self.group.pack(q[:, :, block.queries]), None if x is None else self.group.pack(x[:, :, block.queries])

    def logits(self, block: Block, q: Tensor, x: Tensor | None) -> Tensor:
        """(n, c, keys), -inf where a query must not look; in a room that the next block uses again."""
        if self.by_query is not None and x is not None:
            logits, beta = self.by_query.start(self.rooms.logits, x, block), 1
        else:
            logits, beta = self.rooms.logits[: len(q) * block.rows * block.keys].view(len(q), block.rows, -1), 0
        k = self.k[:, : block.keys]
        torch.baddbmm(logits, q, k.mT, beta=beta, alpha=self.plan.scale, out=logits)
        if self.clipped is not None and x is not None:
            self.clipped.into(logits, x, block)
        if self.by_key is not None and self.y is not None:
            self.by_key.into(logits, self.y, block)
        self.plan.hide(logits, self.group, block)
        return logits

    def forward(self, block: Block) -> tuple[Tensor, Tensor]:
        """Outputs (n, c, D) and log-sum-exps (n, c, 1)."""
        weights = self.logits(block, *self.sides(block))
        most = weights.amax(-1, keepdim=True).clamp_(min=torch.finfo(weights.dtype).min)
        weights.sub_(most).exp_()
        total = weights.sum(-1, keepdim=True).clamp_(min=1.0)  # that of a query that sees a key is no less
        out = torch.bmm(weights, self.v[:, : block.keys])
        if self.values is not None:
            out += skew.returned(self.values.sums(weights, block), self.values.rows, 1.0)
        return out.div_(total), most.add_(total.log_())

    def backward(self, block: Block, out: Tensor, lse: Tensor, grad: Tensor, grads: Inputs, own: Inputs) -> None:
        """Adds to `grads`, where gradients of the whole call are wanted, and to `own`, those of this group's keys."""
        plan, group = self.plan, self.group
        scale, queries, keys = plan.scale, block.queries, slice(0, block.keys)
        q, x = self.sides(block)
        weights = self.logits(block, q, x).sub_(lse).exp_()
        grad_weights = self.rooms.other[: weights.numel()].view(weights.shape)
        torch.bmm(grad, self.v[:, keys].mT, out=grad_weights)
        add_product(own.v[:, keys], weights.mT, grad)
        if self.values is not None:
            self.values.into(grad_weights, grad, block)
            if grads.value_rows is not None:
                skew.collect(group.rows(grads.value_rows), self.values.sums(weights, block), grad, 1.0)
        grad_logits = weights.mul_(grad_weights.sub_((out * grad).sum(-1, keepdim=True)))
        group.put(grads.q[:, :, queries], torch.bmm(grad_logits, self.k[:, keys]).mul_(scale))
        add_product(own.k[:, keys], grad_logits.mT, q, scale)
        rows = None if grads.x_rows is None else group.rows(grads.x_rows)
        if self.by_key is not None and self.y is not None:
            y_rows = None if grads.y_rows is None else group.rows(grads.y_rows)
            self.by_key.back(grad_logits, self.y, block, own.y, y_rows)
        if self.clipped is not None:
            by_row = self.clipped.sums(grad_logits, block)
            if rows is not None:
                skew.collect(rows, by_row, x, scale)
            group.put(grads.x[:, :, queries], skew.returned(by_row, self.clipped.rows, scale))
        if self.by_query is not None:
            group.put(grads.x[:, :, queries], self.by_query.back(x, block, rows))


def add_product(total: Tensor, left: Tensor, right: Tensor, scale: float = 1.0) -> None:
    torch.baddbmm(total, left, right, alpha=scale, out=total)
