"""Transformer-XL's relative positions (Dai et al. 2019, arXiv:1901.02860).

    score(i, j) = D^-0.5 [ (q_i + u_h) · k_j + (q_i + v_h) · (W R_{i-j})_h ]

R is the sinusoid of the signed distance i - j in the `concat` layout, W has no bias and is one a layer; u and v, global
content and position biases, are shared by all layers as in the paper. The relative rows are gathered by distance
instead of shifted, so that an encoder, a cache and sampled positions need no special case.
"""

from typing import Literal

from torch import Tensor

from relformer.encodings.base import PositionalEncoding
from relformer.encodings.parameters import normal, parameter
from relformer.encodings.sinusoid import sinusoid
from relformer.encodings.span import Span
from relformer.errors import OptionError, UserError
from relformer.registry import register


@register(
    "transformer_xl",
    family="contextual",
    changes="logits, by content and distance",
    learned="yes",
    beyond="extends",
    paper="1901.02860",
)
class TransformerXL(PositionalEncoding):
    share = "layer"
    shared = ("u", "v")

    def __init__(
        self,
        heads: int,
        head_dim: int,
        width: int,
        *,
        layout: Literal["concat", "interleaved"] = "concat",
        clamp_length: int | None = None,
        init_std: float = 0.02,
    ) -> None:
        super().__init__()
        if width % 2:
            raise UserError(f"a sinusoid needs an even width, but model.width={width}; choose an even model.width")
        if clamp_length is not None and clamp_length < 1:
            raise OptionError("clamp_length", clamp_length, "must be at least 1, or null for no limit")
        if init_std < 0:
            raise OptionError("init_std", init_std, "must not be negative; the paper's code uses 0.02")
        self.layout: Literal["concat", "interleaved"] = layout
        self.clamp_length = clamp_length
        self.width = width
        self.relative_weight = parameter(normal(init_std), heads, head_dim, width)
        self.u = parameter(normal(init_std), heads, head_dim)
        self.v = parameter(normal(init_std), heads, head_dim)

    def prepare(self, span: Span) -> Tensor:
        """The projected row of every distance: (H, R, D)."""
        distance = span.relative.distance
        if self.clamp_length is not None:
            distance = distance.clamp(-self.clamp_length, self.clamp_length)
        return sinusoid(distance, self.width, self.layout) @ self.relative_weight.float().mT

    def query(self, q: Tensor, span: Span) -> Tensor:
        return q + self.u[:, None].to(q.dtype)

    def score(
        self, scores: Tensor, q: Tensor, k: Tensor, features: Tensor | None, span: Span, keep: Tensor | None
    ) -> Tensor:
        rows = (q + self.v[:, None].to(q.dtype)) @ span.prepared.mT.to(q.dtype)  # (B, H, Q, R)
        return scores + self.scale(q.shape[-1]) * span.relative.gather(rows)
