"""Samplers: encodings that say at which positions the tokens of a sequence stand, over a table that reads them."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from relformer.encodings.base import PositionalEncoding
from relformer.encodings.sinusoid import refuse_odd, sinusoid
from relformer.encodings.span import Positions, as_tensor

Table = Literal["sinusoidal", "none"]


class SampledPositions(PositionalEncoding):
    """Base of the samplers: a subclass gives `positions`."""

    def __init__(self, width: int, table: Table) -> None:
        super().__init__()
        if table == "sinusoidal":
            refuse_odd(width)
        self.has_table = table == "sinusoidal"

    def acts(self, hook: str) -> bool:
        return super().acts(hook) and (hook != "embed" or self.has_table)

    def embed(self, x: Tensor, tokens: Tensor, positions: Positions) -> Tensor:
        return x + sinusoid(as_tensor(positions, x.device), x.shape[-1]).to(x.dtype) if self.has_table else x
