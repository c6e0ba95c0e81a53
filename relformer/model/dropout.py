"""Dropout from random bytes.

`F.dropout` on a CPU draws a number in double precision for every element, one after the other: most of what it costs.
Here one draw of 64 bits serves eight elements, and the mask that is kept for the backward pass has a byte each. As in
`F.dropout`, the mask follows from torch's global generator and the shape alone.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

LEVELS = 256
LOWEST = torch.iinfo(torch.int64).min


def dropout(x: Tensor, rate: float) -> Tensor:
    """On a CPU an element is dropped with probability round(256 rate) / 256, 0.1016 where 0.1 was asked for.

    What stays is scaled by that probability, so the expectation is exact. Rates that would round to 0 or 1, other
    devices, and compiled code, which draws as fast, take `F.dropout`, whose probability is the rate.
    """
    level = round(rate * LEVELS)
    if x.device.type != "cpu" or not 0 < level < LEVELS or torch.compiler.is_compiling():
        return F.dropout(x, rate)
    return ByteDropout.apply(x, level)


class ByteDropout(torch.autograd.Function):
    """Drops what draws a byte below `level`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, level: int) -> Tensor:
        kept = random_bytes(x.numel()).ge_(level).view(x.shape)
        ctx.save_for_backward(kept)
        ctx.scale = LEVELS / (LEVELS - level)
        return masked(x, kept, ctx.scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return masked(gradient, kept, ctx.scale), None


def masked(x: Tensor, kept: Tensor, scale: float) -> Tensor:
    return kept.to(x.dtype).mul_(x).mul_(scale)  # one new tensor: allocating is the dear part


def random_bytes(count: int) -> Tensor:
    """Uniform bytes (count,), from torch's global generator."""
    words = torch.empty((count + 7) // 8, dtype=torch.int64)
    return words.random_(LOWEST, None).view(torch.uint8)[:count]  # random_() alone leaves the sign bit 0
