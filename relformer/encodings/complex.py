"""Complex embeddings of word order (Wang et al. 2020, arXiv:1912.12333): each word turns at frequencies of its own.

    e(w, t)_c = r_{w,c} exp(i (omega_{w,c} t + theta_{w,c}))        c = 0 .. E/2 - 1

The word embedding is the complex number r exp(i theta), real parts in its first half and imaginary parts in its
second, so that width and output tying stay as they are; omega is the only new table. It starts at 10000^(-2c / (E/2))
for every word. The paper runs a complex-valued network; here the real Transformer reads real and imaginary parts side
by side.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from relformer.encodings.base import PositionalEncoding
from relformer.encodings.parameters import parameter
from relformer.encodings.precision import precise
from relformer.encodings.sinusoid import refuse_odd
from relformer.encodings.span import Positions, as_tensor
from relformer.registry import register


@register("complex", family="absolute", changes="input, by word", learned="yes", beyond="extends", paper="1912.12333")
class ComplexOrder(PositionalEncoding):
    def __init__(
        self, width: int, vocabulary: int, *, frequencies: Literal["word_channel", "word", "channel"] = "word_channel"
    ) -> None:
        super().__init__()
        refuse_odd(width)
        half = width // 2
        start = torch.exp(-math.log(10000.0) * 2 * torch.arange(half) / half)
        if frequencies == "word":
            start = start.mean(0, keepdim=True)
        words = 1 if frequencies == "channel" else vocabulary
        self.by_token = () if frequencies == "channel" else ("omega",)
        self.omega = parameter(lambda tensor, generator: tensor.copy_(start), words, len(start))

    def embed(self, x: Tensor, tokens: Tensor, positions: Positions) -> Tensor:
        """Turn each token's channel pairs by its frequencies times its position: (B, T, E) -> (B, T, E)."""
        omega = precise(self.omega)[tokens if len(self.omega) > 1 else torch.zeros_like(tokens)]
        angle = precise(as_tensor(positions, x.device)[..., None]) * omega
        real, imaginary = precise(x).chunk(2, dim=-1)
        cos, sin = angle.cos(), angle.sin()
        return torch.cat((real * cos - imaginary * sin, real * sin + imaginary * cos), dim=-1).to(x.dtype)
