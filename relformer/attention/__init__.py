"""attend(): one attention call. The backend follows from the encoding's hooks; `dense` is the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import torch
from torch import Tensor

from relformer.attention.call import Call
from relformer.attention.dense import dense
from relformer.attention.sdpa import refuse_sdpa, sdpa, serves
from relformer.encodings import PositionalEncoding, Span
from relformer.errors import UserError

Backend = Literal["auto", "dense", "sdpa"]
BACKENDS: tuple[str, ...] = get_args(Backend)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encoding: PositionalEncoding,
    span: Span,
    *,
    padding: Tensor | None = None,
    causal: bool = False,
    features: Tensor | None = None,
    keys_done: bool = False,
    dropout: float = 0.0,
    backend: str = "auto",
    observer: Callable[[Call], None] | None = None,
) -> Tensor:
    """Attention of projected q (B, H, Q, D) to k and v (B, H, K, D) under one encoding.

    Args:
        span: what `encoding.ready` returned for this step.
        padding: (B, K) bool, True where the key is a token; None where every key is.
        causal: whether a query sees only keys at its own position and before.
        features: (B, H, K, F), what `encoding.features` made of the keys' inputs.
        keys_done: whether k already went through `encoding.key`, as a cache stores it.
        dropout: probability on the attention weights; 0 outside training.
        observer: is shown the call, whatever the backend; it can make the logits for itself.

    Returns:
        (B, H, Q, D); a query with no key to see gets zeros.

    Raises:
        UserError: an unknown backend, or backend=sdpa with an encoding that acts on logits or values.
    """
    query = encoding.query(q, span)
    key = k if keys_done else encoding.key(k, span)
    keep = visible_pairs(encoding, span, padding, causal)
    bias = additive_bias(encoding, span, q.dtype)
    if backend not in BACKENDS:
        raise UserError(f"attention.backend={backend!r} is not one of {', '.join(BACKENDS)}")
    if backend == "sdpa":
        refuse_sdpa(encoding)
    if observer is not None:
        observer(Call(query, key, encoding, span, keep, bias, (q, k), features))
    if backend == "sdpa" or (backend == "auto" and serves(encoding) and not slow_on_sdpa(bias)):
        square = causal and padding is None and span.q == span.k if isinstance(span.q, range) else False
        fast = square and not encoding.acts("visible")
        return sdpa(query, key, v, encoding.scale(q.shape[-1]), keep, bias, fast, dropout)
    return dense(query, key, v, encoding, span, keep, bias, (q, k), features, dropout)


def slow_on_sdpa(bias: Tensor | None) -> bool:
    """On a CPU a mask that needs a gradient silently leaves the fast kernel (1.9 to 3.1 times the time)."""
    return bias is not None and bias.requires_grad and torch.is_grad_enabled() and bias.device.type == "cpu"


def visible_pairs(encoding: PositionalEncoding, span: Span, padding: Tensor | None, causal: bool) -> Tensor | None:
    """The mask, True = attend: broadcastable to (B, H, Q, K), or None where every query sees every key."""
    masks = []
    if causal and span.relative.past is not None:
        masks.append(span.relative.past[:, None])
    if padding is not None:
        masks.append(padding[:, None, None, :])
    if encoding.acts("visible"):
        seen = encoding.visible(span.relative.distance)
        if seen is not None:
            masks.append(seen[span.relative.index][:, None])
    keep = None
    for mask in masks:
        keep = mask if keep is None else keep & mask
    return keep


def additive_bias(encoding: PositionalEncoding, span: Span, dtype: torch.dtype) -> Tensor | None:
    """Table and bias of the encoding for all pairs: broadcastable to (B, H, Q, K), made in float32 and cast last."""
    bias = span.pair_bias
    if encoding.acts("bias"):
        with torch.autocast(span.device.type, enabled=False):
            more = encoding.bias(span)
        if more is not None:
            more = more if more.dim() == 4 else more[None]
            bias = more if bias is None else bias + more
    return None if bias is None else bias.to(dtype)
