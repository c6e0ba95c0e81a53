"""Relative position representations on keys and values (Shaw, Uszkoreit and Vaswani 2018, arXiv:1803.02155).

    score(i, j) = D^-0.5 q_i · (k_j + a^K_c)        c = clip(j - i, -k, k) + k, k = max_distance
    o_i         = sum_j p_ij (v_j + a^V_c)

Two tables of 2k + 1 rows of the head size, shared by the heads, one pair a layer. Neither term ever expands to
(L, L, D): queries meet the 2k + 1 rows and are gathered, probabilities are summed by row before they meet the values.
`zero_outside` lets a pair further apart than k add nothing to either, as VITS (arXiv:2106.06103) has it, instead of
reading the last row.
"""

from torch import Tensor
from torch.nn import functional as F

from relformer.encodings.base import PositionalEncoding
from relformer.encodings.parameters import parameter, xavier_uniform
from relformer.encodings.span import Span
from relformer.errors import OptionError
from relformer.registry import register


@register(
    "shaw",
    family="contextual",
    changes="logits and values, by content and distance",
    learned="yes",
    beyond="clips",
    paper="1803.02155",
)
class Shaw(PositionalEncoding):
    share = "layer"

    def __init__(
        self,
        head_dim: int,
        *,
        max_distance: int = 16,
        keys: bool = True,
        values: bool = True,
        zero_outside: bool = False,
    ) -> None:
        super().__init__()
        if max_distance < 0:
            raise OptionError("max_distance", max_distance, "must not be negative; the paper uses 16")
        if not keys and not values:
            raise OptionError("keys", keys, "and values=False leave no position at all; set one, or use encoding=none")
        self.max_distance = max_distance
        self.zero_outside = zero_outside
        rows = 2 * max_distance + 1
        self.key_rows = parameter(xavier_uniform(), rows, head_dim) if keys else None
        self.value_rows = parameter(xavier_uniform(), rows, head_dim) if values else None

    def prepare(self, span: Span) -> Tensor:
        """The row of each pair, 2k + 1 being the row of zeros: (B | 1, 1, Q, K)."""
        ahead = -span.relative.pairs[:, None]
        row = ahead.clamp(-self.max_distance, self.max_distance) + self.max_distance
        return row.masked_fill(ahead.abs() > self.max_distance, 2 * self.max_distance + 1) if self.zero_outside else row

    def table_of(self, rows: Tensor) -> Tensor:
        return F.pad(rows, (0, 0, 0, 1)) if self.zero_outside else rows

    def score(
        self, scores: Tensor, q: Tensor, k: Tensor, features: Tensor | None, span: Span, keep: Tensor | None
    ) -> Tensor:
        if self.key_rows is None:
            return scores
        rows = q @ self.table_of(self.key_rows).mT.to(q.dtype)  # (B, H, Q, 2k + 1)
        return scores + self.scale(q.shape[-1]) * rows.gather(-1, span.prepared.expand_as(scores))

    def value(self, weights: Tensor, span: Span) -> Tensor | None:
        if self.value_rows is None:
            return None
        table = self.table_of(self.value_rows)
        by_row = weights.new_zeros(*weights.shape[:-1], len(table))
        by_row = by_row.scatter_add(-1, span.prepared.expand_as(weights), weights)
        return by_row @ table.to(weights.dtype)
