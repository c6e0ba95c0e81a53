"""Short sequences: the weights are written out and kept for the backward pass; up to some 200 tokens nothing is faster.

Samples go one by one where they have pairs enough to pay for it: the projections' layout, (B, T, H, D) in memory, then
need not be copied, and a sample's logits stay in the cache. Everything is done in place.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

ALONE = 2**12
"""Pairs of all heads from which a sample goes alone."""


class Short(torch.autograd.Function):
    """q (B, H, Q, D), k, v (B, H, K, D) and the bias of pairs (H, Q, K), -inf where hidden: (B, H, Q, D).

    `padding` (B, 1, 1, K) is -inf where a key is no token and 0 elsewhere; `blind` says whether a query may see none.
    """

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor, padding: Tensor | None, blind: bool, scale: float
    ) -> Tensor:
        kinds = q.dtype, k.dtype, v.dtype
        q, k, v = (t.to(bias.dtype) for t in (q, k, v))
        weights = bias.new_empty(len(q), *bias.shape)
        alone = weights[0].numel() >= ALONE
        if padding is None:
            weights.copy_(bias)
        else:
            torch.add(bias, padding, out=weights)
        out = room(q, alone) if q.shape == v.shape else v.new_empty(*q.shape[:3], v.shape[-1])
        with torch.autocast("cpu", enabled=False):
            for of, to, at, p, mixed in zip(*groups(alone, q, k, v, weights, out), strict=True):
                p.baddbmm_(of, to.mT, alpha=scale)
                unseeing = p.amax(-1, keepdim=True) == -torch.inf if blind else None
                torch.softmax(p, -1, out=p)
                if unseeing is not None:
                    p.masked_fill_(unseeing, 0.0)
                torch.bmm(p, at, out=mixed)
        ctx.save_for_backward(q, k, v, weights)
        ctx.kinds, ctx.scale, ctx.alone = kinds, scale, alone
        return out.to(kinds[2])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, weights = ctx.saved_tensors
        grad = grad.to(weights.dtype)
        dq, dk, dv = (room(t, ctx.alone) for t in (q, k, v))
        learned = ctx.needs_input_grad[3]
        db = weights.new_zeros(weights.shape[1:]) if learned else None
        ds = weights.new_empty(weights.shape[1:] if ctx.alone else weights.flatten(0, 1).shape)
        with torch.autocast("cpu", enabled=False):
            for of, to, at, p, out, *slopes in zip(*groups(ctx.alone, q, k, v, weights, grad, dq, dk, dv), strict=True):
                torch.bmm(p.mT, out, out=slopes[2])
                torch.bmm(out, at.mT, out=ds)
                torch.ops.aten._softmax_backward_data.out(ds, p, -1, p.dtype, grad_input=ds)
                torch.bmm(ds, to, out=slopes[0])
                torch.bmm(ds.mT, of, out=slopes[1])
                if db is not None:
                    db += ds if ctx.alone else ds.unflatten(0, weights.shape[:2]).sum(0)
        dq, dk = dq.mul_(ctx.scale), dk.mul_(ctx.scale)
        dq, dk, dv = (t.to(kind) for t, kind in zip((dq, dk, dv), ctx.kinds, strict=True))
        return dq, dk, dv, db, None, None, None


def groups(alone: bool, *tensors: Tensor) -> list[tuple[Tensor, ...]]:
    """Of each tensor (B, H, ...), its samples one by one, (H, ...), or all in one, (B * H, ...)."""
    return [t.unbind(0) if alone else (t.flatten(0, 1),) for t in tensors]


def room(like: Tensor, alone: bool) -> Tensor:
    """An empty tensor whose `groups` are views of it."""
    return torch.empty_like(like, memory_format=torch.preserve_format if alone else torch.contiguous_format)
