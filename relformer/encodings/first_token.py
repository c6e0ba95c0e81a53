"""The first token apart from all others, as TUPE has it for [CLS] (Ke et al. 2020, arXiv:2006.15595).

    bias(i, 0) = to_first_h, i > 0        bias(0, j) = from_first_h, every j

in place of what the encoding has for these pairs: position 0, often an attention sink, need not fit a function of
distance. That is no table any more, so an encoding with `untie_first` acts through `bias`; without, through `table`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from relformer.encodings.base import PositionalEncoding, Role
from relformer.encodings.parameters import normal, parameter
from relformer.encodings.precision import precise
from relformer.encodings.span import Span, as_tensor


def apart(bias: Tensor, span: Span, to_first: Tensor, from_first: Tensor | None) -> Tensor:
    """The bias (B | 1, H, Q, K) with the values of a head, (H,), where query or key is at position 0."""
    first_key = (as_tensor(span.k, span.device) == 0)[:, None, None, :]
    bias = torch.where(first_key, precise(to_first)[:, None, None], bias)
    if from_first is None:
        return bias
    first_query = (as_tensor(span.q, span.device) == 0)[:, None, :, None]
    return torch.where(first_query, precise(from_first)[:, None, None], bias)


class FirstApart(PositionalEncoding):
    """An encoding with a table that can set the first token apart; `untie` turns it on."""

    def __init__(self) -> None:
        super().__init__()
        self.to_first: nn.Parameter | None = None
        self.from_first: nn.Parameter | None = None

    def untie(self, heads: int, role: Role) -> None:
        """The two values a head. In a causal decoder the first token sees itself alone, so the second is left out."""
        self.to_first = parameter(normal(0.02), heads)
        self.first_apart = True
        self.from_first = None if role == "decoder" else parameter(normal(0.02), heads)

    def acts(self, hook: str) -> bool:
        if hook == "table":
            return self.to_first is None
        if hook == "bias" and type(self).bias is FirstApart.bias:
            return self.to_first is not None
        return super().acts(hook)

    def prepare(self, span: Span) -> Tensor | None:
        """The whole bias where the first token is apart: (B | 1, H, Q, K)."""
        if self.to_first is None:
            return None
        table = self.table(span.relative.distance)
        assert table is not None
        return apart(span.relative.expand(table), span, self.to_first, self.from_first)

    def bias(self, span: Span) -> Tensor | None:
        return None if self.to_first is None else span.prepared
