"""Relative position representations on keys and values (Shaw, Uszkoreit and Vaswani 2018, arXiv:1803.02155).

    score(i, j) = D^-0.5 q_i · (k_j + a^K_c)        c = clip(j - i, -k, k) + k, k = max_distance
    o_i         = sum_j p_ij (v_j + a^V_c)

Two tables of 2k + 1 rows of the head size, shared by the heads, one pair a layer. Neither term ever expands to
(L, L, D): queries meet the 2k + 1 rows and are gathered, probabilities are summed by row before they meet the values.
`zero_outside` lets a pair further apart than k add nothing to either, as VITS (arXiv:2106.06103) has it, instead of
reading the last row.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from relformer.encodings.base import PositionalEncoding
from relformer.encodings.parameters import parameter, xavier_uniform
from relformer.encodings.relative import Clip, Lookup, RelativeRows, Rows, Terms
from relformer.encodings.resizing import nearest_first, reread
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
class Shaw(RelativeRows):
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

    def prepare(self, span: Span) -> Lookup:
        """The row of every distance; 2k + 1 is the row of zeros."""
        reach, ahead = self.max_distance, -span.relative.distance
        row = ahead.clamp(-reach, reach) + reach
        if not self.zero_outside:
            return Lookup(span.relative, row, Clip(reach, past=0, future=2 * reach))
        nothing = 2 * reach + 1
        return Lookup(span.relative, row.masked_fill(ahead.abs() > reach, nothing), Clip(reach, nothing, nothing))

    def resized(self, name: str, old: PositionalEncoding) -> Tensor | None:
        """Every distance as it was: those beyond the old reach get its last row, or zeros with `zero_outside`."""
        assert isinstance(old, Shaw)
        new, trained = self.get_parameter(name), old.get_parameter(name)
        ahead = nearest_first(max(self.max_distance, old.max_distance))
        one, other = (ahead.clamp(-n, n) + n for n in (self.max_distance, old.max_distance))
        made = reread(new, trained, one, other)
        if made is not None and old.zero_outside:
            reach = torch.arange(len(made)) - self.max_distance
            made[reach.abs() > old.max_distance] = 0.0
        return made

    def rows(self, table: Tensor, span: Span) -> Rows:
        return Rows(F.pad(table, (0, 0, 0, int(self.zero_outside)))[None], span.prepared)

    def relative(self, q: Tensor, k: Tensor, span: Span) -> Terms:
        return Terms() if self.key_rows is None else Terms(query=(q, self.rows(self.key_rows, span)))

    def relative_values(self, span: Span) -> Rows | None:
        return None if self.value_rows is None else self.rows(self.value_rows, span)
