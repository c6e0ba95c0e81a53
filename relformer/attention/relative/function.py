"""The autograd function: forward keeps the output and the log-sum-exp of each query, backward makes the logits anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from relformer.attention.relative.group import Part, Sums
from relformer.attention.relative.plan import Inputs, Plan


class Attention(torch.autograd.Function):
    """(B, H, Q, D) from a plan and `Inputs`."""

    @staticmethod
    def forward(ctx: Any, plan: Plan, *inputs: Tensor) -> Tensor:
        given = Inputs(*inputs)
        out, lse = torch.zeros_like(given.q), given.q.new_zeros(*given.q.shape[:3], 1)
        rooms = plan.rooms(given)
        for group in plan.groups(given):
            part = Part(plan, given, group, rooms)
            for block in plan.blocks(given):
                mixed, total = part.forward(block)
                group.put(out[:, :, block.queries], mixed)
                group.put(lse[:, :, block.queries], total)
        ctx.plan = plan
        ctx.save_for_backward(*inputs, out, lse)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, out, lse = ctx.saved_tensors
        plan, given = ctx.plan, Inputs(*inputs)
        grads, rooms = zeros(given, ctx.needs_input_grad[1:]), plan.rooms(given)
        for group in plan.groups(given):
            part = Part(plan, given, group, rooms)
            sums = Sums.of(grads, part)
            for block in plan.blocks(given):
                done, total, wanted = (group.pack(t[:, :, block.queries]) for t in (out, lse, grad))
                part.backward(block, done, total, wanted, grads, sums)
            sums.put(grads, group)
        return None, *grads


def zeros(given: Inputs, needed: Sequence[bool]) -> Inputs:
    """Gradients to write and to add to; None for rows that need none, such as sinusoids."""
    fixed = {name for name, need in zip(given._fields, needed, strict=True) if name.endswith("_rows") and not need}
    made = (None if t is None or name in fixed else torch.zeros_like(t) for name, t in given._asdict().items())
    return Inputs(*made)  # type: ignore[arg-type]
