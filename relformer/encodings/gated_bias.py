"""A learned bias for every clipped distance with one gate and one scale a head (no paper of its own).

    score(i, j) += sigmoid(g_h) * exp(s_h) * W[clip(j - i) + M - 1, h]        g starts at 1, s at 0

The function class is that of simple_bias, since a positive factor a head folds into W; only the optimisation differs.
The gate does not read the content. With `init: zeros` the gradients of g and s are exactly 0 at the first step.
"""

from typing import Literal

from torch import Tensor

from relformer.encodings.base import Role
from relformer.encodings.parameters import constant, parameter
from relformer.encodings.simple_bias import SimpleBias
from relformer.registry import register


@register("gated_bias", family="bias", changes="logits, by distance", learned="yes", beyond="clips", paper="")
class GatedBias(SimpleBias):
    def __init__(
        self,
        heads: int,
        role: Role,
        *,
        max_length: int = 512,
        init: Literal["uniform", "zeros"] = "uniform",
        overflow: Literal["clip", "error"] = "clip",
    ) -> None:
        super().__init__(heads, role, max_length=max_length, init=init, overflow=overflow)
        self.gate = parameter(constant(1.0), heads)
        self.log_scale = parameter(constant(0.0), heads)

    def table(self, distance: Tensor) -> Tensor:
        factor = self.gate.float().sigmoid() * self.log_scale.float().exp()
        return factor[:, None] * super().table(distance)
