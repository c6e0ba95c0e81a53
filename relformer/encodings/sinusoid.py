"""The sinusoid of Vaswani et al. (2017, arXiv:1706.03762) in the three layouts that implementations use.

w_c = base^(-2c / E), c = 0 .. E/2 - 1
interleaved   p[2c] = sin(t w_c), p[2c + 1] = cos(t w_c)       the paper
concat        all sines, then all cosines                      Transformer-XL, XLNet, Marian
fairseq       concat with w_c = base^(-c / (E/2 - 1))          tensor2tensor, fairseq
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from relformer.encodings.precision import precise, precision
from relformer.errors import UserError

Layout = Literal["interleaved", "concat", "fairseq"]


def refuse_odd(width: int) -> None:
    """Sine and cosine come in pairs of channels.

    Raises:
        UserError: the width is odd.
    """
    if width % 2:
        raise UserError(f"sines and cosines come in pairs, but model.width={width} is odd; choose an even model.width")


def sinusoid(positions: Tensor, width: int, layout: Layout = "interleaved", base: float = 10000.0) -> Tensor:
    """Rows of the sinusoid in float32: (...,) positions -> (..., width); width must be even."""
    return wave(positions, log_frequencies(width, layout, base, positions.device), layout)


def log_frequencies(width: int, layout: Layout, base: float, device: torch.device | None = None) -> Tensor:
    """ln w_c: (width / 2,) float32."""
    half = width // 2
    channel = torch.arange(half, device=device, dtype=precision())
    return -math.log(base) * (channel / max(half - 1, 1) if layout == "fairseq" else channel / half)


def wave(positions: Tensor, log_frequency: Tensor, layout: Layout) -> Tensor:
    """Sines and cosines of positions times frequencies, in the layout's order: (...,) -> (..., 2 C)."""
    angle = precise(positions[..., None]) * log_frequency.exp()
    if layout == "interleaved":
        return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(-2)
    return torch.cat((angle.sin(), angle.cos()), dim=-1)
