"""SHAPE: shifted absolute positions (Kiyono et al. 2021, arXiv:2109.05644).

    pos_t = t + s        s ~ U{0 .. max_shift - 1}, one draw a sequence in training; source and target draw on their own

over the paper's sinusoid, or, with `table: none`, as the positions of the other parts of a `compose`. The authors' code
decodes with the constant shift max_shift, not 0: `eval_shift`.
"""

from __future__ import annotations

from typing import Literal

import torch

from relformer.encodings.sampled import SampledPositions, Table
from relformer.encodings.span import Positions
from relformer.errors import OptionError
from relformer.registry import register


@register("shape", family="sampler", changes="positions", learned="no", beyond="as its table", paper="2109.05644")
class Shape(SampledPositions):
    def __init__(
        self,
        width: int,
        *,
        max_shift: int = 500,
        eval_shift: Literal["max", "zero"] = "max",
        table: Table = "sinusoidal",
    ) -> None:
        super().__init__(width, table)
        if max_shift < 0:
            raise OptionError("max_shift", max_shift, "must not be negative; the paper uses 500, 0 means no shift")
        self.max_shift = max_shift
        self.eval_shift = max_shift if eval_shift == "max" else 0

    def positions_end(self, length: int) -> int:
        return length + max(self.max_shift - 1, self.eval_shift, 0)

    def positions(self, length: int, batch: int, device: torch.device) -> Positions:
        if not self.training or self.max_shift < 2:
            shift = 0 if self.training else self.eval_shift
            return range(shift, shift + length)
        shifts = torch.randint(self.max_shift, (batch, 1), device=device)
        return torch.arange(length, device=device) + shifts
