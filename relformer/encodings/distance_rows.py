"""Which row of a table a clipped distance reads: what simple_bias and gated_bias share.

    row = clip(j - i, -(M - 1), M - 1) + M - 1        M = max_length

The offset is M - 1, a constant of the table, so that one distance reads one row at every sequence length. A causal
decoder never meets a key in the future and stores the M rows of the past alone.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from relformer.encodings.base import LengthError, PositionalEncoding, Role
from relformer.encodings.parameters import Law, constant, uniform
from relformer.encodings.resizing import nearest_first, reread
from relformer.errors import OptionError

TABLES = ("distance_weight", "row_factor", "magnitude_weight")


class DistanceRows(PositionalEncoding):
    share = "layer"

    def __init__(
        self, role: Role, max_length: int, init: Literal["uniform", "zeros"], overflow: Literal["clip", "error"]
    ) -> None:
        super().__init__()
        if max_length < 1:
            raise OptionError("max_length", max_length, "must be at least 1: distances reach max_length - 1")
        self.furthest = max_length - 1
        self.future = 0 if role == "decoder" else self.furthest
        self.overflow = overflow
        self.law: Law = uniform(0.1) if init == "uniform" else constant(0.0)

    def max_positions(self) -> int | None:
        return self.furthest + 1 if self.overflow == "error" else None

    def resized(self, name: str, old: PositionalEncoding) -> Tensor | None:
        """Every distance as it was: those that the old table clipped get the row they read there."""
        assert isinstance(old, DistanceRows)
        if name not in TABLES:
            return None
        distance = nearest_first(max(self.furthest, old.furthest))
        new, trained = self.get_parameter(name), old.get_parameter(name)
        return reread(new, trained, self.read_at(distance), old.read_at(distance))

    def read_at(self, distance: Tensor) -> Tensor:
        """The row of each distance, clipped."""
        return (-distance).clamp(-self.furthest, self.future) + self.furthest

    def row(self, distance: Tensor) -> Tensor:
        """The row of each distance i - j, of furthest + 1 + future rows.

        Raises:
            LengthError: with overflow=error, a distance beyond the table.
        """
        if self.overflow == "error" and (reach := int(distance.abs().max())) > self.furthest:
            raise LengthError(
                f"a distance of {reach} exceeds {self.path}.max_length={self.furthest + 1}; "
                f"set {self.path}.max_length={reach + 1} or more, or {self.path}.overflow=clip"
            )
        return self.read_at(distance)
