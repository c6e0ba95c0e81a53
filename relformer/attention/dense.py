"""Attention written out: the reference for every other backend, and the one that serves every hook."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from relformer.encodings import PositionalEncoding, Span


def dense(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encoding: PositionalEncoding,
    span: Span,
    keep: Tensor | None,
    bias: Tensor | None,
    raw: tuple[Tensor, Tensor],
    features: Tensor | None,
    dropout: float,
) -> Tensor:
    """(B, H, Q, D), from transformed q and k; `raw` holds them as projected. Fully masked rows give zeros."""
    weights = F.dropout(
        shares(logits(q, k, encoding, span, keep, bias, raw, features), keep).to(v.dtype),
        dropout,
        training=dropout > 0,
    )
    out = weights @ v
    extra = encoding.value(weights, span)
    if extra is not None:
        out = out + extra
    return out if keep is None else out * keep.any(-1, keepdim=True)


def logits(
    q: Tensor,
    k: Tensor,
    encoding: PositionalEncoding,
    span: Span,
    keep: Tensor | None,
    bias: Tensor | None,
    raw: tuple[Tensor, Tensor],
    features: Tensor | None,
) -> Tensor:
    """(B, H, Q, K) after scaling and before the mask."""
    scores = q @ k.mT * encoding.scale(raw[0].shape[-1])
    if bias is not None:
        scores = scores + bias
    if encoding.acts("score"):
        scores = encoding.score(scores, *raw, features, span, keep)
    return scores


def shares(scores: Tensor, keep: Tensor | None) -> Tensor:
    """The softmax over the keys that are seen, at least in float32."""
    if keep is not None:
        scores = scores.masked_fill(~keep, torch.finfo(scores.dtype).min)
    return scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))
