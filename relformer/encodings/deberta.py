"""DeBERTa's disentangled attention (He et al. 2021, arXiv:2006.03654; its third version, arXiv:2111.09543).

    score(i, j) = (D n)^-0.5 [ q_i · k_j + q_i · K^r_δ(i,j) + k_j · Q^r_δ(i,j) ]        n = how many terms there are
    δ(i, j) = clamp(i - j + s, 0, 2s - 1), s = max_distance                  K^r = P W_kr, Q^r = P W_qr + b_qr

P holds 2s rows of model size, one table for all layers; the projections are a layer's own. Distances reach from -s to
s - 1. A bias in K^r would move all logits of a query alike, so there is none. Published forms:

    v1   the defaults, but for its biases on q and v alone: `model.attention_bias` has none, qk, qkv or all
    v3   shared_projections, norm_embeddings, position_buckets=256: K^r and Q^r come from the layer's W_k and W_q (with
         `model.attention_bias=qkv` their biases too), P passes a layer norm, far distances share logarithmic buckets

With buckets i - j is first clamped to ±(max_distance - 1), as in the authors' code (others leave that out, and read row
0), then put in a bucket b, and s = position_buckets, m = s / 2:
    |n| <= m   b = n        else   b = sign(n) (ceil(ln(|n| / m) / ln((max_distance - 1) / m) (m - 1)) + m)

Surprise: the paper prints δ(j, i) in the last term, while every implementation reads δ(i, j): `p2c_index`.
`absolute_last` n gives the last n layers of the stack absolute positions too, added to what W_q reads. It stands for
the enhanced mask decoder, which adds them where it applies the last layer twice (n = 2) in front of the output.

terms   c2c q·k · c2p q·K^r · p2c k·Q^r. The scale follows their number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from relformer.encodings.base import LengthError, PositionalEncoding, Projection, Role
from relformer.encodings.parameters import constant, normal, parameter
from relformer.encodings.precision import precise
from relformer.encodings.relative import Lookup, RelativeRows, Rows, Terms
from relformer.encodings.resizing import nearest_first, overlaid, reread
from relformer.encodings.span import Relative, Span, as_tensor
from relformer.encodings.terms import chosen, query_side
from relformer.errors import OptionError
from relformer.registry import register

TERMS = ["c2c", "c2p", "p2c"]


@register(
    "deberta",
    family="contextual",
    changes="logits, by content and distance",
    learned="yes",
    beyond="clips",
    paper="2006.03654",
)
class DeBERTa(RelativeRows):
    share = "layer"
    shared = ("deberta_rows", "deberta_gain", "deberta_shift", "deberta_positions")
    bucket_of: Tensor | None

    def __init__(
        self,
        heads: int,
        head_dim: int,
        width: int,
        layers: int,
        layer: int,
        role: Role,
        *,
        max_distance: int = 512,
        position_buckets: int | None = None,
        shared_projections: bool = False,
        norm_embeddings: bool = False,
        p2c_index: Literal["code", "paper"] = "code",
        terms: list[str] = TERMS,
        relative_dropout: float = 0.0,
        absolute_last: int = 0,
        max_length: int = 512,
        init_std: float = 0.02,
    ) -> None:
        super().__init__()
        if max_distance < 1:
            raise OptionError("max_distance", max_distance, "must be at least 1; the paper uses 512")
        check_buckets(position_buckets, max_distance)
        if not 0 <= relative_dropout < 1:
            raise OptionError("relative_dropout", relative_dropout, "must lie in [0, 1): it is a probability")
        check_absolute(absolute_last, layers, role, max_length)
        if init_std < 0:
            raise OptionError("init_std", init_std, "must not be negative; the paper uses 0.02")
        self.terms = chosen(terms, TERMS)
        self.shared_projections = shared_projections
        self.relative_dropout = relative_dropout
        self.mirrored = p2c_index == "paper"
        self.reach = max_distance if position_buckets is None else position_buckets
        if position_buckets is None:
            self.bucket_of = None
        else:
            self.constant("bucket_of", buckets(position_buckets, max_distance))

        drawn = normal(init_std)
        c2p, p2c = "c2p" in self.terms, "p2c" in self.terms
        normed, own = norm_embeddings and (c2p or p2c), not shared_projections
        self.deberta_rows = parameter(drawn, 2 * self.reach, width) if c2p or p2c else None
        self.deberta_gain = parameter(constant(1.0), width) if normed else None
        # All rows of K^r move alike with the shift, and with them all logits of a query: only p2c feels it.
        self.deberta_shift = parameter(constant(0.0), width) if normed and p2c else None
        self.deberta_key = parameter(drawn, heads, head_dim, width) if own and c2p else None
        self.deberta_query = parameter(drawn, heads, head_dim, width) if own and p2c else None
        self.deberta_query_bias = parameter(constant(0.0), heads, head_dim) if own and p2c else None

        self.own_layer = absolute_last > 0
        self.absolute = layer >= layers - absolute_last
        self.deberta_positions = parameter(drawn, max_length, width) if absolute_last else None

    def acts(self, hook: str) -> bool:
        idle = {"project": not self.shared_projections, "query_input": not (self.own_layer and self.absolute)}
        return super().acts(hook) and not idle.get(hook, False)

    def resized(self, name: str, old: PositionalEncoding) -> Tensor | None:
        """Each row as the old table has its nearest distance; absolute positions as far as both reach."""
        assert isinstance(old, DeBERTa)
        if name not in ("deberta_rows", "deberta_positions"):
            return None
        new, trained = self.get_parameter(name), old.get_parameter(name)
        if name == "deberta_positions":
            return overlaid(new, trained)
        reach = max(each.reach if each.bucket_of is None else len(each.bucket_of) for each in (self, old))
        distance = nearest_first(reach)
        return reread(new, trained, self.row(distance), old.row(distance))

    def scale(self, head_dim: int) -> float:
        return float((head_dim * len(self.terms)) ** -0.5)

    def max_positions(self) -> int | None:
        return None if self.deberta_positions is None else self.deberta_positions.shape[0]

    def query_input(self, x: Tensor, span: Span) -> Tensor:
        """Adds the row of each position in the last `absolute_last` layers.

        Raises:
            LengthError: a position beyond the table; found on the host, before the lookup.
        """
        if self.deberta_positions is None or not self.absolute:
            return x
        limit = len(self.deberta_positions)
        needed = span.q.stop if isinstance(span.q, range) else int(span.q.max()) + 1
        if needed > limit:
            raise LengthError(
                f"a sequence of {needed} positions exceeds {self.path}.max_length={limit} (BOS and EOS count); "
                f"set {self.path}.max_length={needed} or more, or {self.path}.absolute_last=0"
            )
        return x + self.deberta_positions[as_tensor(span.q, x.device)].to(x.dtype)

    def prepare(self, span: Span) -> tuple[Rows | None, Rows | None] | None:
        return None if self.shared_projections else self.read(span, self.own_query, self.own_key)

    def project(self, span: Span, query: Projection, key: Projection) -> Span:
        return replace(span, prepared=self.read(span, query, key)) if self.shared_projections else span

    def own_query(self, rows: Tensor) -> Tensor:
        assert self.deberta_query is not None and self.deberta_query_bias is not None
        return precise(rows) @ precise(self.deberta_query).mT + precise(self.deberta_query_bias)[:, None]

    def own_key(self, rows: Tensor) -> Tensor:
        assert self.deberta_key is not None
        return precise(rows) @ precise(self.deberta_key).mT

    def read(self, span: Span, query: Projection, key: Projection) -> tuple[Rows | None, Rows | None]:
        """K^r for c2p and Q^r for p2c, where those terms take part."""
        if self.deberta_rows is None:
            return None, None
        rows: Tensor = self.deberta_rows
        if self.deberta_gain is not None:
            shift = None if self.deberta_shift is None else precise(self.deberta_shift)
            normed = F.layer_norm(precise(rows), rows.shape[-1:], precise(self.deberta_gain), shift, 1e-7)
            rows = normed.to(rows.dtype)
        rows = F.dropout(rows, self.relative_dropout, self.training and self.relative_dropout > 0)

        def part(term: str, mirrored: bool, project: Callable[[Tensor], Tensor]) -> Rows | None:
            if term not in self.terms:
                return None
            used, lookup = self.wanted(span.relative, mirrored)
            return Rows(project(rows[used]), lookup)

        return part("c2p", False, key), part("p2c", self.mirrored, query)

    def wanted(self, relative: Relative, mirrored: bool) -> tuple[Tensor, Lookup]:
        """The rows that a call needs, never more than there are, and which of them each distance reads."""
        row = self.row(-relative.distance if mirrored else relative.distance)
        if len(row) <= 2 * self.reach:
            return row, Lookup(relative)
        return torch.arange(2 * self.reach, device=row.device), Lookup(relative, row)

    def row(self, distance: Tensor) -> Tensor:
        """δ for each distance i - j."""
        if self.bucket_of is not None:
            distance = distance.sign() * self.bucket_of[distance.abs().clamp(max=len(self.bucket_of) - 1)]
        return (distance + self.reach).clamp(0, 2 * self.reach - 1)

    def query(self, q: Tensor, span: Span) -> Tensor:
        return query_side(q, "c2c" in self.terms, None)

    def relative(self, q: Tensor, k: Tensor, span: Span) -> Terms:
        c2p, p2c = span.prepared
        return Terms(query=None if c2p is None else (q, c2p), key=None if p2c is None else (k, p2c))


def buckets(position_buckets: int, max_distance: int) -> Tensor:
    """The bucket of |i - j| = 0..max_distance - 1: (max_distance,) int64.

    In float32 and in the reference's order of operations, so that distances at an edge fall on the same side.
    """
    middle = position_buckets // 2
    n = torch.arange(max_distance)
    logarithmic = torch.log(n.clamp(min=middle) / middle) / torch.log(torch.tensor((max_distance - 1) / middle))
    coarse = torch.ceil(logarithmic * (middle - 1)).long() + middle
    return torch.where(n <= middle, n, coarse)


def check_buckets(position_buckets: int | None, max_distance: int) -> None:
    """Raises OptionError where there are no logarithmic buckets, or no distances for them."""
    if position_buckets is None:
        return
    if position_buckets < 4 or position_buckets % 2:
        raise OptionError(
            "position_buckets", position_buckets, "must be even and at least 4, or null for none; version 3 uses 256"
        )
    if max_distance < position_buckets // 2 + 2:
        raise OptionError(
            "max_distance",
            max_distance,
            f"must be at least {position_buckets // 2 + 2}: position_buckets={position_buckets} gives the nearest "
            f"{position_buckets // 2} distances a bucket each; version 3 uses 512 with 256",
        )


def check_absolute(absolute_last: int, layers: int, role: Role, max_length: int) -> None:
    """Raises OptionError where absolute positions have no layer to enter, or no table."""
    if not 0 <= absolute_last <= layers:
        raise OptionError("absolute_last", absolute_last, f"must lie between 0 and the {layers} layers of the stack")
    if absolute_last and role == "cross":
        raise OptionError("absolute_last", absolute_last, "must be 0 in cross-attention; set it on the self-attention")
    if max_length < 1:
        raise OptionError("max_length", max_length, "must be at least 1: it is the number of absolute positions")
