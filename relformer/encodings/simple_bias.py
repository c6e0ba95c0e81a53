"""A learned bias for every clipped distance and head: the full relative table, without buckets (no paper of its own).

    score(i, j) += W[clip(j - i, -(M - 1), M - 1) + M - 1, h]        M = max_length

The offset is M - 1, a constant of the table, so that one distance reads one row at every sequence length. A causal
decoder never meets a key in the future and stores the M rows of the past alone.
"""

from typing import Literal

from torch import Tensor

from relformer.encodings.base import LengthError, PositionalEncoding, Role
from relformer.encodings.parameters import constant, parameter, uniform
from relformer.errors import OptionError
from relformer.registry import register


@register("simple_bias", family="bias", changes="logits, by distance", learned="yes", beyond="clips", paper="")
class SimpleBias(PositionalEncoding):
    share = "layer"

    def __init__(
        self,
        heads: int,
        role: Role,
        *,
        max_length: int = 512,
        init: Literal["uniform", "zeros"] = "uniform",
        overflow: Literal["clip", "error"] = "clip",
    ) -> None:
        super().__init__()
        if max_length < 1:
            raise OptionError("max_length", max_length, "must be at least 1: distances reach max_length - 1")
        self.furthest = max_length - 1
        self.future = 0 if role == "decoder" else self.furthest
        self.overflow = overflow
        rows = self.furthest + 1 + self.future
        self.distance_weight = parameter(uniform(0.1) if init == "uniform" else constant(0.0), rows, heads)

    def max_positions(self) -> int | None:
        return self.furthest + 1 if self.overflow == "error" else None

    def table(self, distance: Tensor) -> Tensor:
        """Bias by distance i - j: (R,) -> (H, R).

        Raises:
            LengthError: with overflow=error, a distance beyond the table.
        """
        if self.overflow == "error" and (reach := int(distance.abs().max())) > self.furthest:
            raise LengthError(
                f"a distance of {reach} exceeds {self.path}.max_length={self.furthest + 1}; "
                f"set {self.path}.max_length={reach + 1} or more, or {self.path}.overflow=clip"
            )
        row = (-distance).clamp(-self.furthest, self.future) + self.furthest
        return self.distance_weight[row].float().T
