"""torch's flash attention on a CPU, under a table: the mask is a strided view of it, and no pair costs memory.

Row i of a Toeplitz matrix needs a stride of -1, which torch has not; with the queries in reverse it is +1. The public
function keeps the log-sum-exp to itself, so these are private operators, tried before they are trusted. -inf in the
table hides; a query that sees nothing gets zeros and a log-sum-exp of 0.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F


def forward(q: Tensor, k: Tensor, v: Tensor, table: Tensor, scale: float, out: Tensor, lse: Tensor) -> None:
    """q (B, H, Q, D), k, v (B, H, K, D) and a table (H, Q + K - 1): fills the output and the log-sum-exp (B, H, Q)."""
    mixed, total = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        reverse(q), k, v, attn_mask=mask(table, k), scale=scale
    )
    reverse(mixed, out)
    reverse(total, lse)


def backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, table: Tensor, out: Tensor, lse: Tensor, scale: float, dq: Tensor
) -> tuple[Tensor, Tensor]:
    """From the gradient of the output, and what `forward` gave: fills the gradient of q, returns those of k and v."""
    grad, q, out, lse = (reverse(t) for t in (grad, q, out, lse))
    slope, dk, dv = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        grad, q, k, v, out, lse, 0.0, False, attn_mask=mask(table, k), scale=scale
    )
    reverse(slope, dq)
    return dk, dv


def fixed(q: Tensor, k: Tensor, v: Tensor, table: Tensor, scale: float) -> Tensor:
    """The output alone, by the public function and with its gradient, under a table that wants none and hides nothing.

    Here keys and values are reversed: with the gradients that is four tensors to turn, for six with the queries.
    """
    bias = mask(table.flip(-1), k)
    return F.scaled_dot_product_attention(q, reverse(k), reverse(v), attn_mask=bias, scale=scale)


def mask(table: Tensor, k: Tensor) -> Tensor:
    """(1, H, Q, K), a view, by queries in reverse; of the reversed table, by keys in reverse."""
    return table.unfold(-1, k.shape[2], 1)[None]


def reverse(x: Tensor, out: Tensor | None = None) -> Tensor:
    """(B, H, T, ...) with the tokens in reverse, faster than `flip`: by rows of all heads where those lie side by side,
    as projections leave them."""
    order = torch.arange(x.shape[2] - 1, -1, -1)
    if out is None and x.stride(1) < x.stride(2):
        return torch.index_select(x.transpose(1, 2), 1, order).transpose(1, 2)
    return torch.index_select(x, 2, order, out=out)


@cache
@torch.inference_mode(False)  # it may be asked for the first time while decoding
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
            out, lse, dq = torch.empty_like(q), q.new_empty(q.shape[:3]), torch.empty_like(q)
            forward(q, k, v, table, 0.3, out, lse)
            got = (out, lse, dq, *backward(grad, q, k, v, table, out, lse, 0.3, dq))
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return False
    return all(
        one.shape == other.shape and torch.allclose(one, other)
        for one, other in zip(got, (wanted, scores.logsumexp(-1), *gradients), strict=True)
    )
