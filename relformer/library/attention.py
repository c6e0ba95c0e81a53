"""Attention under any registered encoding, inside one's own model."""

from __future__ import annotations

import torch
from torch import Tensor

from relformer import attention
from relformer.encodings import PositionalEncoding, Positions, Span
from relformer.encodings.span import count
from relformer.errors import UserError


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encoding: PositionalEncoding,
    *,
    causal: bool = False,
    padding: Tensor | None = None,
    q_positions: Positions | None = None,
    k_positions: Positions | None = None,
    span: Span | None = None,
    features: Tensor | None = None,
    dropout: float = 0.0,
    backend: str = "auto",
) -> Tensor:
    """Attention of projected queries (B, H, Q, D) to keys and values (B, H, K, D): (B, H, Q, D).

    An encoding of a stack's input (sinusoidal, learned, ...) has acted before: `x = encoding.embed(x, tokens,
    range(T))` on the embedded tokens (B, T, E). The whole loop for any encoding is in the README.

    Args:
        causal: a query sees the keys at its own position and before.
        padding: (B, K) bool, True where the key is a token; None where every key is.
        q_positions, k_positions: a `range`, or (B | 1, T) increasing integers. Left out, keys stand at 0 .. K - 1 and
            as many queries at the same places; other numbers of queries must say where they stand, as a decode step
            with `q_positions=range(t, t + 1)` does.
        span: what `make_span` returned, instead of positions; one serves all layers.
        features: `encoding.features(x)` of the keys' inputs x (B, K, E), for encodings that keep some (forgetting).
        dropout: probability on the weights.
        backend: auto, dense, sdpa or flex.

    Raises:
        UserError: shapes, positions or features that don't go together.
    """
    refuse_shapes(q, k, v, padding, encoding, features)
    if span is None:
        refuse_open(encoding, q_positions, q.shape[2], k.shape[2])
        keys: Positions = range(k.shape[2]) if k_positions is None else k_positions
        span = make_span(encoding, keys if q_positions is None else q_positions, keys, device=q.device)
    refuse_counts(span, q.shape[2], k.shape[2])
    return attention.attend(
        q,
        k,
        v,
        encoding,
        span,
        padding=padding,
        causal=causal,
        features=features,
        dropout=dropout,
        backend=backend,
    )


def make_span(
    encoding: PositionalEncoding,
    q_positions: Positions,
    k_positions: Positions | None = None,
    *,
    length: int | None = None,
    device: torch.device | str = "cpu",
) -> Span:
    """Which positions meet in a call, with what the encoding prepares for them: its table, its cosines.

    For several layers of one step it is made once. Encodings that act on what the projections read need it before the
    call: `encoding.query_input(x, span)`, `encoding.key_input(x, span)`, `encoding.project(span, query, key)`.

    Args:
        k_positions: those of the queries unless given.
        length: for which positions are planned, where that changes the formula (dynamic_ntk, longrope); the highest
            position and one unless given.
    """
    keys = q_positions if k_positions is None else k_positions
    if length is None:
        length = max(map(reach, (q_positions, keys))) if encoding.length_dependent else count(keys)
    return encoding.ready(Span.between(q_positions, keys, length, torch.device(device)))


def reach(positions: Positions) -> int:
    """The highest position and one."""
    return positions.stop if isinstance(positions, range) else int(positions.max()) + 1


def refuse_shapes(
    q: Tensor, k: Tensor, v: Tensor, padding: Tensor | None, encoding: PositionalEncoding, features: Tensor | None
) -> None:
    shapes = f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"
    if {q.dim(), k.dim(), v.dim()} != {4}:
        raise UserError(f"attend takes (batch, heads, tokens, head size), not {shapes}; split the heads first")
    if q.shape[:2] != k.shape[:2] or q.shape[-1] != k.shape[-1] or k.shape[:3] != v.shape[:3]:
        raise UserError(f"{shapes} don't fit: batch and heads must agree, q and k in head size, k and v in tokens")
    if padding is not None and (padding.dtype != torch.bool or padding.shape != (k.shape[0], k.shape[2])):
        raise UserError(
            f"padding is {padding.dtype} {tuple(padding.shape)}; it must be bool, True at tokens, of the keys' "
            f"(batch, tokens) = {(k.shape[0], k.shape[2])}"
        )
    if features is None and encoding.acts("features"):
        raise UserError(
            f"{type(encoding).__name__} reads the keys' inputs: pass features=encoding.features(x), x (batch, tokens, "
            "width) as the key projection reads it"
        )


def refuse_open(encoding: PositionalEncoding, q_positions: Positions | None, queries: int, keys: int) -> None:
    """Refuse what positions that are left out would have to be guessed for."""
    name = type(encoding).__name__
    if q_positions is None and encoding.acts("positions"):
        raise UserError(
            f"{name} draws positions, once for a batch and all its layers: positions = encoding.positions(length, "
            "batch, device), then pass q_positions=positions, k_positions=positions"
        )
    if q_positions is None and queries != keys:
        first = max(keys - queries, 0)
        raise UserError(
            f"{queries} queries and {keys} keys: say where the queries stand, such as "
            f"q_positions=range({first}, {first + queries}) for the last of a sequence"
        )
    for hook in ("query_input", "key_input", "project"):
        if encoding.acts(hook):
            raise UserError(
                f"{name} acts on what the projections read: make its span first, span = make_span(encoding, "
                f"range({keys})), use encoding.query_input(x, span), key_input and project, and pass span=span"
            )


def refuse_counts(span: Span, queries: int, keys: int) -> None:
    for name, positions, tokens in (("q", span.q, queries), ("k", span.k, keys)):
        if count(positions) != tokens:
            raise UserError(f"{name} has {tokens} tokens, but {count(positions)} positions: {positions}")
