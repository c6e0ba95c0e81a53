"""PoPE: content as magnitudes, position as phases (Gopalakrishnan et al. 2025, arXiv:2509.10534).

    score(i, j) = D^-0.5 sum_c softplus(q_ic) softplus(k_jc) cos((i - j) w_c - b_hc)        w_c = base^(-c / D)

with a learned phase b for each head and channel, clamped to [-2 pi, 0]. As vectors, each of the D channels becomes a
point in the plane, m (cos t, sin t), so queries and keys have 2D channels and values D. RoPE has D / 2 frequencies and
lets content turn the phase; here each channel has a frequency of its own and content can't.

While all phases are 0, as they start, the score is even in i - j: an encoder can't tell a sequence from its mirror
image. A phase that a step takes above 0 gets no gradient through the clamp any more and stays 0; `init: uniform`
starts the phases all over [-2 pi, 0]. The scale is that of the D projected channels, as in x-transformers.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from relformer.encodings.base import PositionalEncoding
from relformer.encodings.parameters import constant, parameter
from relformer.encodings.precision import precise
from relformer.encodings.rope import Turn
from relformer.encodings.span import Span, as_tensor
from relformer.errors import OptionError
from relformer.registry import register


@register("polar", family="rotary", changes="queries and keys", learned="yes", beyond="extends", paper="2509.10534")
class Polar(PositionalEncoding):
    inverse_frequency: Tensor

    def __init__(
        self, heads: int, head_dim: int, *, base: float = 10000.0, init: Literal["zeros", "uniform"] = "zeros"
    ) -> None:
        super().__init__()
        if base <= 1:
            raise OptionError("base", base, "must be greater than 1; the paper uses 10000")
        channel = torch.arange(head_dim, dtype=torch.float64)
        self.constant("inverse_frequency", precise(base ** (-channel / head_dim)))
        self.key_phase = parameter(constant(0.0) if init == "zeros" else anywhere, heads, head_dim)

    def prepare(self, span: Span) -> tuple[Turn, Turn]:
        """cos and sin for queries, (B | 1, 1, Q, D), and keys with their phases, (B | 1, H, K, D)."""
        queries, keys = (
            precise(as_tensor(positions, span.device)[:, None, :, None]) * self.inverse_frequency
            for positions in (span.q, span.k)
        )
        keys = keys + precise(self.key_phase).clamp(-2 * math.pi, 0)[:, None]
        return (queries.cos(), queries.sin()), (keys.cos(), keys.sin())

    def query(self, q: Tensor, span: Span) -> Tensor:
        return spread(q, span.prepared[0])

    def key(self, k: Tensor, span: Span) -> Tensor:
        return spread(k, span.prepared[1])


def spread(x: Tensor, turn: Turn) -> Tensor:
    """Magnitudes at the angles of their positions: (B, H, T, D) -> (B, H, T, 2D), in float32 until the end."""
    magnitude = F.softplus(precise(x))
    return torch.cat((magnitude * turn[0], magnitude * turn[1]), dim=-1).to(x.dtype)


def anywhere(tensor: Tensor, generator: torch.Generator | None) -> Tensor:
    """The law of phases that start all round the circle."""
    return nn.init.uniform_(tensor, -2 * math.pi, 0.0, generator=generator)
