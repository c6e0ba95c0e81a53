"""Rows by distance: what Shaw, Transformer-XL, XLNet, TENER and DeBERTa add to the logits, and Shaw to the output.

    score(i, j) += scale [ x_i · rows_r(i-j) ]      x made of the queries
                 + scale [ y_j · rows_r(i-j) ]      y made of the keys
    o_i         += Σ_j p_ij rows_r(i-j)

An encoding describes its rows once; the formula that gathers, here, and the kernel that never does,
`relformer.attention.relative`, read the same description.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import NamedTuple

from torch import Tensor

from relformer.encodings.base import PositionalEncoding
from relformer.encodings.precision import precise
from relformer.encodings.span import Relative, Span


class Clip(NamedTuple):
    """Rows 0..2 reach belong to the distances reach..-reach, in that order; all others read one row a side."""

    reach: int
    past: int
    """The row of every distance above reach."""
    future: int
    """The row of every distance below -reach."""


class Lookup:
    """Which row each distance reads: `row` (R,) in the order of `relative.distance`, or a row of its own in that order.

    `clip` says the same in short, where there is no more to it.
    """

    def __init__(self, relative: Relative, row: Tensor | None = None, clip: Clip | None = None) -> None:
        self.relative, self.row, self.clip = relative, row, clip

    @cached_property
    def pair(self) -> Tensor:
        """The row of each pair: (B | 1, 1, Q, K)."""
        index = self.relative.index
        return (index if self.row is None else self.row[index])[:, None]


class Rows(NamedTuple):
    """Rows of head size, (H | 1, N, D), and which of them each distance reads."""

    rows: Tensor
    lookup: Lookup

    @property
    def pair(self) -> Tensor:
        return self.lookup.pair

    @property
    def by_distance(self) -> Tensor:
        """A row for every distance: (H | 1, R, D)."""
        return self.rows if self.lookup.row is None else self.rows[:, self.lookup.row]


class Terms(NamedTuple):
    """What one call adds to its logits, before they are scaled."""

    query: tuple[Tensor, Rows] | None = None
    """(B, H, Q, D) that meets rows."""
    key: tuple[Tensor, Rows] | None = None
    """(B, H, K, D) that meets rows."""


class RelativeRows(PositionalEncoding):
    """Base of the encodings that meet rows by distance. A subclass gives `relative`, and may give `relative_values`."""

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if cls.score is not RelativeRows.score or cls.value is not RelativeRows.value:
            raise TypeError(f"{cls.__name__}: score and value follow from relative and relative_values")

    @abstractmethod
    def relative(self, q: Tensor, k: Tensor, span: Span) -> Terms:
        """The terms of the logits, from raw q and k."""

    def relative_values(self, span: Span) -> Rows | None:
        """The rows that join the values."""
        return None

    def score(
        self, scores: Tensor, q: Tensor, k: Tensor, features: Tensor | None, span: Span, keep: Tensor | None
    ) -> Tensor:
        query, key = self.relative(q, k, span)
        scale = self.scale(q.shape[-1])
        if query is not None:
            x, (rows, at) = query
            by_query = x @ rows.mT.to(x.dtype)  # (B, H, Q, N)
            scores = scores + scale * by_query.gather(-1, at.pair.expand_as(scores))
        if key is not None:
            y, (rows, at) = key
            by_key = y @ rows.mT.to(y.dtype)  # (B, H, K, N)
            scores = scores + scale * by_key.gather(-1, at.pair.expand_as(scores).mT).mT
        return scores

    def value(self, weights: Tensor, span: Span) -> Tensor | None:
        met = self.relative_values(span)
        if met is None:
            return None
        # A row's sum of many small probabilities stands still in bfloat16 long before it is whole.
        by_row = precise(weights).new_zeros(*weights.shape[:-1], met.rows.shape[-2])
        by_row = by_row.scatter_add(-1, met.pair.expand_as(weights), precise(weights)).to(weights.dtype)
        return by_row @ met.rows.to(weights.dtype)
