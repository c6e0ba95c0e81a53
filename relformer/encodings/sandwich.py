"""Sandwich: the inner product of two sinusoids as a bias (Chi et al. 2022, arXiv:2212.10356).

    score(i, j) += (sum_c cos((i - j) 10000^(-2c / dim)) - dim / 2) / (8 h / H)        h = 1..H

over dim / 2 values of c from `first` on: 0, or 1 as in NVIDIA's NeMo. `dim` is a constant of the method, 128, and no
size of the model. Nothing is learned. The bias is 0 at distance 0 and falls within an envelope, though not steadily;
it is symmetric, so that an encoder takes a sequence for its mirror image.
"""

from typing import Literal

import torch
from torch import Tensor

from relformer.encodings.base import PositionalEncoding
from relformer.encodings.precision import precise, precision
from relformer.errors import OptionError
from relformer.registry import register


@register(
    "sandwich", family="bias", changes="logits, by distance", learned="no", beyond="extrapolates", paper="2212.10356"
)
class Sandwich(PositionalEncoding):
    frequency: Tensor
    compression: Tensor

    def __init__(self, heads: int, *, dim: int = 128, first: Literal[0, 1] = 0) -> None:
        super().__init__()
        if dim < 2 or dim % 2:
            raise OptionError("dim", dim, "must be even and at least 2; the paper uses 128")
        channel = torch.arange(first, first + dim // 2, dtype=precision())
        self.constant("frequency", 10000.0 ** (-2 * channel / dim))
        self.constant("compression", heads / (8 * torch.arange(1, heads + 1, dtype=precision())))

    def table(self, distance: Tensor) -> Tensor:
        angle = precise(distance[:, None]) * self.frequency
        return self.compression[:, None] * (angle.cos() - 1).sum(-1)
