"""Which keys the queries of one call can see, so that no kernel works on what is hidden.

Pair (i, j) of Q queries and K keys, both counted from 0, reads column j - i + Q - 1 of the table.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from relformer.attention.call import Call

BLOCK = 256
"""Queries that flash attention takes together where distance hides keys."""


@dataclass(frozen=True, eq=False)
class Geometry:
    """Query i sees keys from i + `back` to i + `ahead`, both included, and none beyond the padding."""

    queries: int
    keys: int
    back: int
    ahead: int
    gaps: bool
    """Whether some distances between are hidden too."""
    lengths: list[int] | None
    """Of each sample, how many keys come before its right padding; None where none is padded, or where `pad` says."""
    pad: Tensor | None
    """(B, 1, 1, K) bool, True where the key is no token, where padding stands anywhere but on the right."""

    @classmethod
    def of(cls, call: Call, hidden: Tensor | None) -> Geometry:
        """The geometry of a call whose table has these hidden columns (R,)."""
        queries, keys = call.q.shape[2], call.k.shape[2]
        back, ahead, gaps = 1 - queries, keys - 1, False
        if hidden is not None:
            columns = (~hidden).nonzero()[:, 0]
            if len(columns) == 0:
                back, ahead = keys, -queries
            else:
                back, ahead = int(columns[0]) + 1 - queries, int(columns[-1]) + 1 - queries
                gaps = len(columns) < ahead - back + 1
        lengths, pad = None, None
        if call.padding is not None:
            tokens = call.padding.sum(-1)
            if not torch.equal(call.padding, torch.arange(keys) < tokens[:, None]):
                pad = ~call.padding[:, None, None]
            elif int(tokens.min()) < keys:
                lengths = tokens.tolist()
        return cls(queries, keys, back, ahead, gaps, lengths, pad)

    def seen(self, places: slice, sample: int | None = None) -> slice:
        """The keys that some queries can see between them, of one sample or of any; perhaps none."""
        first = max(0, places.start + self.back)
        end = self.keys if sample is None or self.lengths is None else self.lengths[sample]
        return slice(first, max(first, min(end, places.stop + self.ahead)))

    def columns(self, places: slice, seen: slice) -> slice:
        """The part of the table that these queries and keys read."""
        first = self.queries - places.stop + seen.start
        return slice(first, first + places.stop - places.start + seen.stop - seen.start - 1)

    @property
    def cut(self) -> bool:
        """Whether distance hides keys, so that it pays to take some queries at a time."""
        return self.back > 1 - self.queries or self.ahead < self.keys - 1

    @property
    def flashed(self) -> int:
        """How many queries flash attention takes together."""
        return BLOCK if self.cut else self.queries

    @property
    def blind(self) -> bool:
        """Whether there may be a query that sees no key at all."""
        shortest = self.keys if self.lengths is None else min(self.lengths)
        return self.gaps or self.pad is not None or self.queries - 1 + self.back >= shortest or self.ahead < 0


def hidden(call: Call) -> Tensor | None:
    """Which distances are hidden by causality and by the encoding, (R,); None where none is."""
    distance = call.span.relative.distance
    future = distance < 0 if call.causal else None
    seen = call.encoding.visible(distance) if call.encoding.acts("visible") else None
    if seen is None:
        return future
    return ~seen if future is None else future | ~seen
