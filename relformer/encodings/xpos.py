"""xPos: rotations that decay with distance (Sun et al. 2022, arXiv:2212.10554).

    q'_i = z^((i - a) / S) R(i) q_i        k'_j = z^(-(j - a) / S) R(j) k_j
    z_c  = (2c / r + gamma) / (1 + gamma), c = 0 .. r/2 - 1;  S = scale_base

so that channel pair c of q'·k' is RoPE's times z_c^((i - j) / S), which falls for keys in the past and would grow for
keys in the future: a causal decoder's encoding. The anchor a cancels, and only bounds the factors; here it is the
middle of the keys' positions. It moves with every step of a generation, so the cache holds raw keys. Factors leave
the range of float32 some 36,000 positions from the anchor. Channels that do not turn keep their size.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor

from relformer.encodings.base import Role
from relformer.encodings.precision import precise
from relformer.encodings.rope import RoPE, Turn
from relformer.encodings.span import Positions, Span, as_tensor
from relformer.errors import OptionError
from relformer.registry import register

USE = "use encoding=rope decoder_encoding=xpos"


@register("xpos", family="rotary", changes="queries and keys", learned="no", beyond="extrapolates", paper="2212.10554")
class XPos(RoPE):
    keys = "before"
    refuses: ClassVar[Mapping[Role, str]] = {
        "encoder": f"its factors grow without bound for keys to the right; {USE}",
        "cross": "queries and keys are positions of two sequences, with no past to decay into; use cross_encoding=rope",
    }
    shrink: Tensor

    def __init__(
        self,
        head_dim: int,
        *,
        base: float = 10000.0,
        layout: Literal["interleaved", "half"] = "interleaved",
        fraction: float = 1.0,
        scale_base: float = 512.0,
        gamma: float = 0.4,
    ) -> None:
        super().__init__(head_dim, base=base, layout=layout, fraction=fraction)
        if scale_base <= 0:
            raise OptionError("scale_base", scale_base, "must be positive: it is a distance; the paper uses 512")
        if gamma <= 0:
            raise OptionError("gamma", gamma, "must be positive, or the fastest pair would vanish; the paper uses 0.4")
        channel = torch.arange(0, self.rotary_dim, 2, dtype=torch.float64) / self.rotary_dim
        self.constant("shrink", precise(((channel + gamma) / (1 + gamma)).log() / scale_base))

    def prepare(self, span: Span) -> tuple[Turn, Turn]:
        """cos and sin times the decay, (B | 1, 1, T, r/2) each."""
        keys = as_tensor(span.k, span.device)
        anchor = (keys[:, :1] + keys[:, -1:]) // 2
        queries_turn, keys_turn = super().prepare(span)
        return self.decayed(queries_turn, span.q, anchor), self.decayed(keys_turn, span.k, anchor, -1)

    def decayed(self, turn: Turn, positions: Positions, anchor: Tensor, sign: int = 1) -> Turn:
        steps = (as_tensor(positions, anchor.device) - anchor)[:, None, :, None]
        size = (sign * steps * self.shrink).exp()
        return turn[0] * size, turn[1] * size
