"""TENER's direction-aware relative positions (Yan et al. 2019, arXiv:1911.04474).

    score(i, j) = scale [ (q_i + u_h) · k_j + (q_i + w_h) · R_{j-i} + k_j · R_{i-j} ]

R is the sinusoid over the head's own channels in the `fairseq` layout, not projected and the same for all heads: its
sines tell the direction, its cosines the distance. u and w are one pair a layer.

Two surprises. The last term stands in the authors' code and not in the paper: `key_term=false` is the paper's formula.
And q·k is not divided by D^0.5: `scale` is 1, with which wide heads saturate the softmax (theirs are small); null means
D^-0.5. Where the code calls its biases r_r and r_w, Transformer-XL swaps the two names.

terms   c2c q·k · c2p q·R · p2c u·k · p2p w·R. `key_term` is a switch of its own, and the scale knows of neither.
"""

from typing import NamedTuple

from torch import Tensor, nn

from relformer.encodings.own_scale import OwnScale
from relformer.encodings.parameters import Law, parameter
from relformer.encodings.relative import Lookup, RelativeRows, Rows, Terms
from relformer.encodings.sinusoid import sinusoid
from relformer.encodings.span import Span
from relformer.encodings.terms import ALL, chosen, query_side
from relformer.errors import UserError
from relformer.registry import register


class Sinusoids(NamedTuple):
    """The sinusoid of every distance, in the order of `relative.distance`: (R, D) each."""

    ahead: Tensor
    """R_{j-i}."""
    back: Tensor
    """R_{i-j}."""


@register(
    "tener",
    family="contextual",
    changes="logits, by content and distance",
    learned="yes",
    beyond="extends",
    paper="1911.04474",
)
class TENER(OwnScale, RelativeRows):
    share = "layer"

    def __init__(
        self,
        heads: int,
        head_dim: int,
        *,
        key_term: bool = True,
        scale: float | None = 1.0,
        terms: list[str] = ALL,
    ) -> None:
        super().__init__()
        if head_dim % 2:
            raise UserError(
                f"a sinusoid needs an even head size, but model.width / model.heads = {head_dim}; choose an even one"
            )
        self.multiply(scale, "the authors' code has 1")
        self.terms = chosen(terms, ALL)
        self.key_term = key_term
        self.head_dim = head_dim
        self.tener_u = parameter(xavier_normal(), heads, head_dim) if "p2c" in self.terms else None
        self.tener_w = parameter(xavier_normal(), heads, head_dim) if "p2p" in self.terms else None

    def prepare(self, span: Span) -> Sinusoids:
        distance = span.relative.distance
        return Sinusoids(sinusoid(-distance, self.head_dim, "fairseq"), sinusoid(distance, self.head_dim, "fairseq"))

    def query(self, q: Tensor, span: Span) -> Tensor:
        return query_side(q, "c2c" in self.terms, self.tener_u)

    def relative(self, q: Tensor, k: Tensor, span: Span) -> Terms:
        ahead, back = (Rows(rows[None], Lookup(span.relative)) for rows in span.prepared)
        by_query = bool(self.terms & {"c2p", "p2p"})
        return Terms(
            query=(query_side(q, "c2p" in self.terms, self.tener_w), ahead) if by_query else None,
            key=(k, back) if self.key_term else None,
        )


def xavier_normal() -> Law:
    return lambda tensor, generator: nn.init.xavier_normal_(tensor, generator=generator)
