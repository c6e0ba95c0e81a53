"""A learned bias for every clipped distance with one gate and one scale a head (no paper of its own).

    score(i, j) += sigmoid(g_h) exp(s_h) W[clip(j - i) + M - 1, h]        g starts at 1, s at 0

As it stands this is simple_bias in another parametrisation, since a positive factor a head folds into W: only the
optimisation differs, and with `init: zeros` the gradients of g and s are exactly 0 at the first step. What is usually
promised of such a gate is optional, with b = exp(s_h) W[...]:

    gate   head      s + sigmoid(g_h) b                       the default, a table
           content   s + sigmoid(w_h · q_i + g_h) b           w starts at 0
           score     s (1 + b') + b', b' = sigmoid(g_h) b     scores are stretched as well as moved
    scale  false     without exp(s_h)
    split  distance_direction    W[|i - j|, h] + V[past or future, h], V not for i = j; a decoder has one direction
    rank   r         W = A C, with A a row a distance and C a column a head, r numbers each
"""

from typing import Literal

from torch import Tensor

from relformer.encodings.base import Role
from relformer.encodings.distance_rows import DistanceRows
from relformer.encodings.parameters import constant, normal, parameter
from relformer.encodings.precision import precise
from relformer.encodings.span import Span
from relformer.errors import OptionError
from relformer.registry import register


@register("gated_bias", family="bias", changes="logits, by distance", learned="yes", beyond="clips", paper="")
class GatedBias(DistanceRows):
    def __init__(
        self,
        heads: int,
        head_dim: int,
        role: Role,
        *,
        max_length: int = 512,
        init: Literal["uniform", "zeros"] = "uniform",
        overflow: Literal["clip", "error"] = "clip",
        gate: Literal["head", "content", "score"] = "head",
        scale: bool = True,
        split: Literal["none", "distance_direction"] = "none",
        rank: int | None = None,
    ) -> None:
        super().__init__(role, max_length, init, overflow)
        if rank is not None and not 1 <= rank <= heads:
            raise OptionError("rank", rank, f"must lie between 1 and the {heads} heads; null means the full table")
        self.mode = gate
        directed = split == "distance_direction" and role != "decoder"
        rows = self.furthest + 1 + (0 if directed else self.future)
        if rank is not None:
            self.row_factor = parameter(self.law, rows, rank)
            self.head_factor = parameter(normal(rank**-0.5), rank, heads)
        elif directed:
            self.magnitude_weight = parameter(self.law, rows, heads)
        else:
            self.distance_weight = parameter(self.law, rows, heads)
        self.rank = rank
        self.direction_weight = parameter(self.law, 2, heads) if directed else None
        self.gate = parameter(constant(1.0), heads)
        self.gate_weight = parameter(constant(0.0), heads, head_dim) if gate == "content" else None
        self.log_scale = parameter(constant(0.0), heads) if scale else None

    def acts(self, hook: str) -> bool:
        if hook in ("table", "score"):
            return (hook == "table") == (self.mode == "head")
        return super().acts(hook)

    def table(self, distance: Tensor) -> Tensor:
        """The bias by distance, with every factor that depends on nothing else: (R,) -> (H, R)."""
        bias = self.ungated(distance)
        if self.mode != "content":
            bias = precise(self.gate).sigmoid()[:, None] * bias
        return bias if self.log_scale is None else precise(self.log_scale).exp()[:, None] * bias

    def read_at(self, distance: Tensor) -> Tensor:
        row = super().read_at(distance)
        return row if self.direction_weight is None else (row - self.furthest).abs()

    def ungated(self, distance: Tensor) -> Tensor:
        row = self.row(distance)
        if self.rank is not None:
            bias = precise(self.row_factor[row]) @ precise(self.head_factor)
        else:
            bias = precise((self.distance_weight if self.direction_weight is None else self.magnitude_weight)[row])
        if self.direction_weight is not None:
            side = precise(self.direction_weight[(distance < 0).long()])  # (R, H): past, future
            bias = bias + side.masked_fill((distance == 0)[:, None], 0.0)
        return bias.T

    def prepare(self, span: Span) -> Tensor | None:
        """The table where `score` reads it: (H, R)."""
        return None if self.mode == "head" else self.table(span.relative.distance)

    def score(
        self, scores: Tensor, q: Tensor, k: Tensor, features: Tensor | None, span: Span, keep: Tensor | None
    ) -> Tensor:
        if self.mode == "head":
            return scores
        bias = span.relative.expand(span.prepared).to(scores.dtype)
        if self.gate_weight is None:
            return scores * (1 + bias) + bias
        opened = (precise(q) * precise(self.gate_weight)[:, None]).sum(-1) + precise(self.gate)[:, None]  # (B, H, Q)
        return scores + opened.sigmoid()[..., None].to(scores.dtype) * bias
