"""TUPE: positions and contents meet apart, through projections of their own (Ke et al. 2020, arXiv:2006.15595).

    score(i, j) = (2D)^-0.5 [ q_i · k_j + (U^Q p_i)_h · (U^K p_j)_h ]        p = LayerNorm(P), U with biases
    tupe_r adds T5's bias by buckets of distance

Position terms are made once and shared by all layers; the input gets no position. `terms` chooses among c2c (content
to content) and p2p (position to position), and the scale follows their number: (n D)^-0.5. With `cls` the first token
is apart: P has a row more, position t reads row t + 1, and U^Q P_0 · U^K P_0 stands for first -> any, U^Q P_1 · U^K P_1
for any -> first; tupe_r's buckets get two values of their own too, as in the authors' code. That is published for
BERT's [CLS]; sequences here begin with an ordinary token, so it is off. Without it U^K's bias moves all logits of a row
alike and is idle. In cross-attention keys have a table of their own.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from relformer.encodings.base import PositionalEncoding, Role
from relformer.encodings.first_token import apart
from relformer.encodings.parameters import constant, normal, parameter
from relformer.encodings.positions_limit import refuse_beyond
from relformer.encodings.precision import precise
from relformer.encodings.resizing import overlaid
from relformer.encodings.span import Span, as_tensor
from relformer.encodings.t5 import T5
from relformer.errors import OptionError
from relformer.registry import register

TERMS = ("c2c", "p2p")


@register("tupe_a", family="bias", changes="logits, by positions", learned="yes", beyond="error", paper="2006.15595")
class TUPEA(PositionalEncoding):
    positional_without_p2p = False
    """Whether anything of position is left where `terms` is c2c alone."""

    def __init__(
        self,
        heads: int,
        head_dim: int,
        width: int,
        role: Role,
        *,
        max_length: int = 512,
        cls: bool = False,
        terms: list[str] | None = None,
        init_std: float = 0.02,
    ) -> None:
        super().__init__()
        if max_length < 1:
            raise OptionError("max_length", max_length, "must be at least 1: the number of positions in the table")
        if init_std <= 0:
            raise OptionError("init_std", init_std, "must be positive; BERT and TUPE use 0.02")
        if terms is not None and (not terms or len(set(terms)) < len(terms) or set(terms) - set(TERMS)):
            raise OptionError("terms", terms, "must be different ones of c2c and p2p, at least one; null means both")
        self.terms = TERMS if terms is None else tuple(terms)
        if "p2p" not in self.terms and not self.positional_without_p2p:
            raise OptionError("terms", terms, "leaves no position at all; set [c2c, p2p], or use encoding=none")
        self.heads, self.max_length, self.first_apart = heads, max_length, cls
        self.term_scale = float((len(self.terms) * head_dim) ** -0.5)
        if "p2p" not in self.terms:
            return
        law = normal(init_std)
        self.tupe_positions = parameter(law, max_length + cls, width)
        self.tupe_key_positions = parameter(law, max_length + cls, width) if role == "cross" else None
        self.tupe_norm_weight, self.tupe_norm_bias = parameter(constant(1.0), width), parameter(constant(0.0), width)
        inner = heads * head_dim
        self.tupe_query_weight, self.tupe_query_bias = parameter(law, inner, width), parameter(constant(0.0), inner)
        self.tupe_key_weight, self.tupe_key_bias = parameter(law, inner, width), parameter(constant(0.0), inner)

    def scale(self, head_dim: int) -> float:
        return self.term_scale if "c2c" in self.terms else 0.0

    def max_positions(self) -> int | None:
        return self.max_length if "p2p" in self.terms else None

    def prepare(self, span: Span) -> Tensor | None:
        """Position to position for every pair: (B | 1, H, Q, K).

        Raises:
            LengthError: a position beyond the table.
        """
        if "p2p" not in self.terms:
            return None
        for positions in (span.q, span.k):
            refuse_beyond(positions, self.max_length, self.path)
        i, j = as_tensor(span.q, span.device) + self.first_apart, as_tensor(span.k, span.device) + self.first_apart
        bias = self.queries(i) @ self.keys_at(j).mT * self.term_scale
        if not self.first_apart:
            return bias
        reserved = torch.arange(2, device=span.device)[None]
        own = (self.queries(reserved) * self.keys_at(reserved)).sum(-1)[0] * self.term_scale  # (H, 2)
        return apart(bias, span, to_first=own[:, 1], from_first=own[:, 0])

    def resized(self, name: str, old: PositionalEncoding) -> Tensor | None:
        """The rows that both tables have; where one of them has a row more for the first token, none."""
        assert isinstance(old, TUPEA)
        if name not in ("tupe_positions", "tupe_key_positions") or self.first_apart != old.first_apart:
            return None
        return overlaid(self.get_parameter(name), old.get_parameter(name))

    def queries(self, rows: Tensor) -> Tensor:
        """(B | 1, T) rows of the table -> (B | 1, H, T, D)."""
        return self.projected(self.tupe_positions[rows], self.tupe_query_weight, self.tupe_query_bias)

    def keys_at(self, rows: Tensor) -> Tensor:
        """(B | 1, T) rows of the keys' table -> (B | 1, H, T, D)."""
        table = self.tupe_positions if self.tupe_key_positions is None else self.tupe_key_positions
        return self.projected(table[rows], self.tupe_key_weight, self.tupe_key_bias)

    def projected(self, rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        p = F.layer_norm(precise(rows), rows.shape[-1:], precise(self.tupe_norm_weight), precise(self.tupe_norm_bias))
        return F.linear(p, precise(weight), precise(bias)).unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def bias(self, span: Span) -> Tensor | None:
        return span.prepared


@register(
    "tupe_r",
    family="bias",
    changes="logits, by positions and distance",
    learned="yes",
    beyond="error",
    paper="2006.15595",
)
class TUPER(TUPEA):
    positional_without_p2p = True

    def __init__(
        self,
        heads: int,
        head_dim: int,
        width: int,
        role: Role,
        *,
        max_length: int = 512,
        cls: bool = False,
        terms: list[str] | None = None,
        init_std: float = 0.02,
        num_buckets: int = 32,
        max_distance: int = 128,
    ) -> None:
        super().__init__(heads, head_dim, width, role, max_length=max_length, cls=cls, terms=terms, init_std=init_std)
        self.relative = T5(
            heads,
            width,
            role,
            num_buckets=num_buckets,
            max_distance=max_distance,
            init_std=init_std,
            untie_first=cls,
        )

    def resized(self, name: str, old: PositionalEncoding) -> Tensor | None:
        assert isinstance(old, TUPER)
        inner = name.removeprefix("relative.")
        return super().resized(name, old) if inner == name else self.relative.resized(inner, old.relative)

    def acts(self, hook: str) -> bool:
        return self.relative.acts(hook) if hook == "table" else super().acts(hook)

    def table(self, distance: Tensor) -> Tensor:
        return self.relative.table(distance)

    def prepare(self, span: Span) -> Tensor | None:
        """Position to position, and where the first token is apart the buckets too: (B | 1, H, Q, K)."""
        pairs, relative = super().prepare(span), self.relative.prepare(span)
        if pairs is None or relative is None:
            return pairs if relative is None else relative
        return pairs + relative
