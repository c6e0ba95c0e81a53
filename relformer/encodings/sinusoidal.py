"""Sinusoidal absolute positions (Vaswani et al. 2017, arXiv:1706.03762), added to the scaled token embeddings.

    x'_t = sqrt(E) emb_t + alpha p_t          p as in relformer.encodings.sinusoid, alpha = 1

Nothing is learned and any position can be computed; quality falls beyond the trained length all the same. With
`scale: learned` alpha is a parameter that starts at 1 (Li et al. 2019, arXiv:1809.08895), with `frequencies: learned`
the angular frequencies are, as logarithms.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from relformer.encodings.injected import AbsoluteRows, Inject
from relformer.encodings.parameters import constant, parameter
from relformer.encodings.precision import precise
from relformer.encodings.sinusoid import Layout, log_frequencies, refuse_odd, wave
from relformer.encodings.span import Positions, as_tensor
from relformer.errors import OptionError
from relformer.registry import register


@register("sinusoidal", family="absolute", changes="input", learned="option", beyond="extends", paper="1706.03762")
class Sinusoidal(AbsoluteRows):
    def __init__(
        self,
        width: int,
        *,
        layout: Layout = "interleaved",
        base: float = 10000.0,
        scale: Literal["fixed", "learned"] = "fixed",
        frequencies: Literal["fixed", "learned"] = "fixed",
        inject: Inject = "input",
    ) -> None:
        super().__init__()
        refuse_odd(width)
        if base <= 1:
            raise OptionError("base", base, "must be greater than 1; the paper uses 10000")
        self.layout: Layout = layout
        self.inject = inject
        self.amplitude = parameter(constant(1.0), 1) if scale == "learned" else None
        start = log_frequencies(width, layout, base)
        if frequencies == "learned":
            self.log_frequency = parameter(lambda tensor, generator: tensor.copy_(start), width // 2)
        else:
            self.constant("log_frequency", start)

    def rows(self, positions: Positions, device: torch.device) -> Tensor:
        rows = wave(as_tensor(positions, device), precise(self.log_frequency), self.layout)
        return rows if self.amplitude is None else rows * precise(self.amplitude)
