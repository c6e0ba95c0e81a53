"""Turning pairs of channels, in one pass where pairs lie side by side: a product of complex numbers.

Written as sums of products it takes four passes over queries and keys and as many new tensors, which at 128 tokens is
as much as attention itself.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def turned(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """Channels of (B, H, T, 2c) in pairs, (2n, 2n + 1) or (n, n + c), turned by angles (B | 1, 1, T, c)."""
    out: Tensor = Rotation.apply(x, cos, sin, interleaved)
    return out


class Rotation(torch.autograd.Function):
    """A gradient is turned back, by the angles' negatives; the angles themselves get none."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
        ctx.save_for_backward(cos, sin)
        ctx.interleaved = interleaved
        return side_by_side(x, cos, sin) if interleaved else half_apart(x, cos, sin)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        cos, sin = ctx.saved_tensors
        return turned(gradient, cos, -sin, ctx.interleaved), None, None, None


def side_by_side(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    if x.stride(-1) != 1 or x.storage_offset() % 2 or any(stride % 2 for stride in x.stride()[:-1]):
        x = x.contiguous()  # no pair of it can be read as one number
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * torch.complex(cos, sin)).flatten(-2)


def half_apart(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    out = x * torch.cat((cos, cos), -1)
    first, second = out.chunk(2, -1)
    first.addcmul_(b, sin, value=-1)
    second.addcmul_(a, sin)
    return out
