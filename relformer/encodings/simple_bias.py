"""A learned bias for every clipped distance and head: the full relative table, without buckets (no paper of its own).

    score(i, j) += W[clip(j - i, -(M - 1), M - 1) + M - 1, h]        M = max_length

Without `per_head` the heads share one bias a distance, as in Ontanon et al. (2022, arXiv:2108.04378). `untie_first`
gives the first token biases of its own.
"""

from typing import Literal

from torch import Tensor

from relformer.encodings.base import Role
from relformer.encodings.distance_rows import DistanceRows
from relformer.encodings.first_token import FirstApart
from relformer.encodings.parameters import parameter
from relformer.encodings.precision import precise
from relformer.registry import register


@register("simple_bias", family="bias", changes="logits, by distance", learned="yes", beyond="clips", paper="")
class SimpleBias(DistanceRows, FirstApart):
    def __init__(
        self,
        heads: int,
        role: Role,
        *,
        max_length: int = 512,
        init: Literal["uniform", "zeros"] = "uniform",
        overflow: Literal["clip", "error"] = "clip",
        per_head: bool = True,
        untie_first: bool = False,
    ) -> None:
        super().__init__(role, max_length, init, overflow)
        self.heads = heads
        self.distance_weight = parameter(self.law, self.furthest + 1 + self.future, heads if per_head else 1)
        if untie_first:
            self.untie(heads, role)

    def table(self, distance: Tensor) -> Tensor:
        """Bias by distance i - j: (R,) -> (H, R). Raises LengthError with overflow=error beyond the table."""
        return precise(self.distance_weight[self.row(distance)]).T.expand(self.heads, -1)
