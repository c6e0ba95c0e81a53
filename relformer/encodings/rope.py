"""RoPE: rotary position embedding (Su et al. 2021, arXiv:2104.09864).

    q'_i = R(i) q_i, k'_j = R(j) k_j        R(t) turns channel pair c by t * base^(-2c / r), c = 0 .. r/2 - 1

so that q'_i · k'_j depends on i - j alone. r = fraction * D channels turn, the rest pass. Pairs are (2c, 2c + 1)
(`interleaved`: the paper, GPT-J) or (c, c + r/2) (`half`: GPT-NeoX, Llama); the two differ by a fixed permutation of
channels, which matters only to foreign weights. Frequencies use r, not D. `scaling` slows them down for sequences
beyond the trained length: `rope_scaling` has the formulas.
"""

from typing import Literal

import torch
from torch import Tensor

from relformer.encodings.base import PositionalEncoding
from relformer.encodings.precision import precise
from relformer.encodings.rope_scaling import LENGTH_DEPENDENT, UNSCALED, RopeScaling, checked, scaled
from relformer.encodings.rotation import turned
from relformer.encodings.span import Positions, Span, as_tensor
from relformer.errors import OptionError
from relformer.registry import register

Turn = tuple[Tensor, Tensor]


@register("rope", family="rotary", changes="queries and keys", learned="no", beyond="degrades", paper="2104.09864")
class RoPE(PositionalEncoding):
    inverse_frequency: Tensor

    def __init__(
        self,
        head_dim: int,
        *,
        base: float = 10000.0,
        layout: Literal["interleaved", "half"] = "interleaved",
        fraction: float = 1.0,
        scaling: RopeScaling = UNSCALED,
    ) -> None:
        super().__init__()
        if base <= 1:
            raise OptionError("base", base, "must be greater than 1; the paper uses 10000")
        if not 0 < fraction <= 1:
            raise OptionError("fraction", fraction, "must lie in (0, 1]: the share of the head's channels that turn")
        self.rotary_dim = round(fraction * head_dim)
        if self.rotary_dim % 2 or not self.rotary_dim:
            raise OptionError(
                "fraction",
                fraction,
                f"turns {self.rotary_dim} of {head_dim} channels a head, but channels turn in pairs",
            )
        self.base = base
        self.interleaved = layout == "interleaved"
        self.scaling = checked(scaling, self.rotary_dim)
        self.length_dependent = scaling.type in LENGTH_DEPENDENT
        if not self.length_dependent:
            inverse, self.magnitude = scaled(self.rotary_dim, base, self.scaling, 0)
            self.constant("inverse_frequency", precise(inverse))

    def prepare(self, span: Span) -> tuple[Turn, Turn]:
        """cos and sin for the queries' and the keys' positions, each (B | 1, 1, T, r/2)."""
        inverse, magnitude = self.frequencies(span)

        def turn(positions: Positions) -> Turn:
            angle = precise(as_tensor(positions, span.device)[:, None, :, None]) * inverse
            return angle.cos() * magnitude, angle.sin() * magnitude

        queries = turn(span.q)
        same = isinstance(span.q, range) and span.q == span.k
        return queries, queries if same else turn(span.k)

    def frequencies(self, span: Span) -> tuple[Tensor, float]:
        """Inverse frequencies (r/2,) in float32, and what multiplies cos and sin."""
        if not self.length_dependent:
            return self.inverse_frequency, self.magnitude
        inverse, magnitude = scaled(self.rotary_dim, self.base, self.scaling, span.length)
        return precise(inverse).to(span.device), magnitude

    def query(self, q: Tensor, span: Span) -> Tensor:
        return self.rotate(q, span.prepared[0])

    def key(self, k: Tensor, span: Span) -> Tensor:
        return self.rotate(k, span.prepared[1])

    def rotate(self, x: Tensor, turn: Turn) -> Tensor:
        """Turn the first r channels of (B, H, T, D) by the angles of their positions, in float32."""
        cos, sin = turn
        moved = turned(precise(x[..., : self.rotary_dim]), cos, sin, self.interleaved).to(x.dtype)
        return moved if self.rotary_dim == x.shape[-1] else torch.cat((moved, x[..., self.rotary_dim :]), dim=-1)
