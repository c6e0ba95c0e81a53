"""Randomized positions (Ruoss et al. 2023, arXiv:2305.16843).

    positions = a sorted sample of `length` distinct integers from 0 .. max_position - 1

so that a short training sequence meets every distance of a long one. The paper's sinusoid is the table; with `table:
none` the positions serve the other parts of a `compose` (rotary, biases). DeepMind's code draws once a batch and
draws in evaluation too (`rows: batch`, `eval: sample`); the default evaluation is `spread`, a fixed stride of
max_position // eval_length, so that a result can be repeated and does not depend on the batch.
"""

from __future__ import annotations

from typing import Literal

import torch

from relformer.encodings.base import LengthError, Shortage
from relformer.encodings.sampled import SampledPositions, Table
from relformer.encodings.span import Positions
from relformer.errors import OptionError
from relformer.registry import register


@register("randomized", family="sampler", changes="positions", learned="no", beyond="error", paper="2305.16843")
class Randomized(SampledPositions):
    def __init__(
        self,
        width: int,
        *,
        max_position: int = 2048,
        rows: Literal["batch", "sample"] = "batch",
        eval: Literal["sample", "spread", "first"] = "spread",
        eval_length: int = 512,
        table: Table = "sinusoidal",
    ) -> None:
        super().__init__(width, table)
        if max_position < 1:
            raise OptionError("max_position", max_position, "must be at least 1; the paper uses 2048")
        if not 1 <= eval_length <= max_position:
            raise OptionError("eval_length", eval_length, f"must be from 1 to max_position={max_position}")
        self.max_position, self.one_for_all, self.evaluation = max_position, rows == "batch", eval
        self.stride = max_position // eval_length
        self.limit_option = "eval_length" if eval == "spread" else "max_position"

    def positions_end(self, length: int) -> int:
        return self.max_position

    def max_positions(self) -> int:
        """In evaluation, where positions are spread."""
        return (self.max_position - 1) // self.stride + 1 if self.evaluation == "spread" else self.max_position

    def shortage(self, length: int) -> Shortage | None:
        short = super().shortage(length)
        whole = Shortage(f"{self.path}.max_position", self.max_position, length)
        return whole if short is not None and length > self.max_position else short

    def positions(self, length: int, batch: int, device: torch.device) -> Positions:
        """One draw a sequence batch, for the whole planned length.

        Raises:
            LengthError: more tokens than there are positions.
        """
        if not self.training and self.evaluation == "first":
            self.refuse(length, length)
            return range(length)
        if not self.training and self.evaluation == "spread":
            self.refuse(length, (length - 1) * self.stride + 1)
            return torch.arange(length, device=device)[None] * self.stride
        self.refuse(length, length)
        order = torch.rand(1 if self.one_for_all else batch, self.max_position, device=device).argsort(dim=-1)
        return order[:, :length].sort(dim=-1).values

    def refuse(self, length: int, needed: int) -> None:
        if needed > self.max_position:
            raise LengthError(
                f"a sequence of {length} positions (BOS and EOS count) needs {self.path}.max_position={needed}, "
                f"but it is {self.max_position}; raise it, or {self.path}.eval_length"
            )
