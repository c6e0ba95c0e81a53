"""Positions that multiply the input instead of being added (no canonical paper; a branch of the surveys' taxonomy).

    x'_t = x_t * (1 + P[t])             P starts at 0

so that a model begins as one without positions. A bare sinusoid is no substitute: it erases half of the channels at t
= 0.
"""

from __future__ import annotations

from torch import Tensor

from relformer.encodings.base import Role
from relformer.encodings.learned import Learned
from relformer.encodings.precision import precise
from relformer.registry import register


@register("multiplicative", family="absolute", changes="input", learned="yes", beyond="error", paper="")
class Multiplicative(Learned):
    def __init__(
        self, width: int, embedding_std: float, role: Role, *, max_length: int = 512, init_std: float = 0.0
    ) -> None:
        super().__init__(width, embedding_std, role, max_length=max_length, init_std=init_std)

    def fuse(self, x: Tensor, rows: Tensor) -> Tensor:
        return (precise(x) * (1 + rows)).to(x.dtype)
