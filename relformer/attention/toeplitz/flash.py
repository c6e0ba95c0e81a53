"""torch's flash attention on a CPU, under a table: the mask is a strided view of it, and no pair costs memory.

Row i of a Toeplitz matrix needs a stride of -1, which torch has not; with the queries in reverse it is +1. The public
function keeps the log-sum-exp to itself, so these are private operators, tried before they are trusted. -inf in the
table hides; a query that sees nothing gets zeros and a log-sum-exp of 0.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor


def forward(q: Tensor, k: Tensor, v: Tensor, table: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """q (B, H, Q, D), k, v (B, H, K, D) and a table (H, Q + K - 1): the output and the log-sum-exp (B, H, Q)."""
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        q.flip(2), k, v, attn_mask=mask(table, k), scale=scale
    )
    return out.flip(2), lse.flip(2)


def backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, table: Tensor, out: Tensor, lse: Tensor, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v, from that of the output and from what `forward` gave."""
    grad, q, out, lse = (t.flip(2) for t in (grad, q, out, lse))
    dq, dk, dv = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        grad, q, k, v, out, lse, 0.0, False, attn_mask=mask(table, k), scale=scale
    )
    return dq.flip(2), dk, dv


def mask(table: Tensor, k: Tensor) -> Tensor:
    """(1, H, Q, K), a view, by queries in reverse."""
    return table.unfold(-1, k.shape[2], 1)[None]


@cache
def trusted() -> bool:
    """Whether this torch has both operators, and they give on a small call what attention is."""
    generator = torch.Generator().manual_seed(0)
    q, k, v, grad = (torch.randn(1, 2, n, 4, generator=generator, dtype=torch.float64) for n in (3, 5, 5, 3))
    table = torch.randn(2, 7, generator=generator, dtype=torch.float64)
    table[:, 5:] = -torch.inf
    with torch.enable_grad():
        inputs = [t.requires_grad_() for t in (q, k, v)]
        scores = q @ k.mT * 0.3 + table.unfold(-1, 5, 1).flip(-2)
        wanted = scores.softmax(-1) @ v
        gradients = torch.autograd.grad(wanted, inputs, grad)
    try:
        with torch.no_grad():
            out, lse = forward(q, k, v, table, 0.3)
            got = (out, lse, *backward(grad, q, k, v, table, out, lse, 0.3))
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return False
    return all(
        one.shape == other.shape and torch.allclose(one, other)
        for one, other in zip(got, (wanted, scores.logsumexp(-1), *gradients), strict=True)
    )
