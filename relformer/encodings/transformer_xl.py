"""Transformer-XL's relative positions (Dai et al. 2019, arXiv:1901.02860).

    score(i, j) = D^-0.5 [ (q_i + u_h) · k_j + (q_i + v_h) · (W R_{i-j})_h ]

R is the sinusoid of the signed distance i - j in the `concat` layout, W has no bias and is one a layer; u and v, global
content and position biases, are shared by all layers as in the paper. The relative rows are looked up by distance, so
that an encoder, a cache and sampled positions need no special case.

terms   c2c q·k · c2p q·WR · p2c u·k · p2p v·WR. The scale stays D^-0.5 whatever is left out, and what only a left-out
term would read is not made. `relative_dropout` falls on R before W; the paper's code draws one mask for all layers,
here each layer draws its own.
"""

from typing import Literal

from torch import Tensor
from torch.nn import functional as F

from relformer.encodings.parameters import normal, parameter
from relformer.encodings.precision import precise
from relformer.encodings.relative import Lookup, RelativeRows, Rows, Terms
from relformer.encodings.sinusoid import refuse_odd, sinusoid
from relformer.encodings.span import Span
from relformer.encodings.terms import ALL, chosen, query_side
from relformer.errors import OptionError
from relformer.registry import register


@register(
    "transformer_xl",
    family="contextual",
    changes="logits, by content and distance",
    learned="yes",
    beyond="extends",
    paper="1901.02860",
)
class TransformerXL(RelativeRows):
    share = "layer"
    shared: tuple[str, ...] = ("u", "v")

    def __init__(
        self,
        heads: int,
        head_dim: int,
        width: int,
        *,
        layout: Literal["concat", "interleaved"] = "concat",
        clamp_length: int | None = None,
        init_std: float = 0.02,
        terms: list[str] = ALL,
        relative_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        refuse_odd(width)
        if clamp_length is not None and clamp_length < 1:
            raise OptionError("clamp_length", clamp_length, "must be at least 1, or null for no limit")
        if init_std < 0:
            raise OptionError("init_std", init_std, "must not be negative; the paper's code uses 0.02")
        if not 0 <= relative_dropout < 1:
            raise OptionError("relative_dropout", relative_dropout, "must lie in [0, 1): it is a probability")
        self.layout: Literal["concat", "interleaved"] = layout
        self.clamp_length = clamp_length
        self.width = width
        self.relative_dropout = relative_dropout
        self.terms = chosen(terms, ALL)
        positional = bool(self.terms & {"c2p", "p2p"})
        self.relative_weight = parameter(normal(init_std), heads, head_dim, width) if positional else None
        self.u = parameter(normal(init_std), heads, head_dim) if "p2c" in self.terms else None
        self.v = parameter(normal(init_std), heads, head_dim) if "p2p" in self.terms else None

    def prepare(self, span: Span) -> Tensor | None:
        """The projected row of every distance: (H, R, D)."""
        if self.relative_weight is None:
            return None
        distance = span.relative.distance
        if self.clamp_length is not None:
            distance = distance.clamp(-self.clamp_length, self.clamp_length)
        rows = sinusoid(distance, self.width, self.layout)
        rows = F.dropout(rows, self.relative_dropout, self.training and self.relative_dropout > 0)
        return rows @ precise(self.relative_weight).mT

    def query(self, q: Tensor, span: Span) -> Tensor:
        return query_side(q, "c2c" in self.terms, self.u)

    def relative(self, q: Tensor, k: Tensor, span: Span) -> Terms:
        if self.relative_weight is None:
            return Terms()
        return Terms(query=(query_side(q, "c2p" in self.terms, self.v), Rows(span.prepared, Lookup(span.relative))))
