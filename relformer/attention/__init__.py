"""attend(): one attention call. The backend follows from the encoding's hooks; `dense` is the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

from torch import Tensor

from relformer.attention import flex, relative, sdpa, toeplitz
from relformer.attention.call import Call
from relformer.attention.dense import dense
from relformer.encodings import PositionalEncoding, Span
from relformer.errors import UserError

Backend = Literal["auto", "dense", "sdpa", "flex"]
BACKENDS: tuple[str, ...] = get_args(Backend)
NAMED: dict[str, Callable[[Call], Tensor]] = {"dense": dense, "sdpa": sdpa.sdpa, "flex": flex.flex}
FASTEST: tuple[tuple[Callable[[Call], bool], Callable[[Call], Tensor]], ...] = (
    (flex.fits, flex.flex),
    (toeplitz.fits, toeplitz.toeplitz),
    (sdpa.fits, sdpa.sdpa),
    (relative.fits, relative.relative),
)
"""What `auto` tries in this order, before `dense`."""


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
    prefix: Tensor | None = None,
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
        prefix: (B,), how many keys at the beginning every query sees, later ones too; None where that is none.
        observer: is shown the call, whatever the backend; it can make the logits for itself.

    Returns:
        (B, H, Q, D); a query with no key to see gets zeros.

    Raises:
        UserError: an unknown backend, or one that can't serve the encoding.
    """
    refuse(backend, encoding)
    query, key = encoding.query(q, span), k if keys_done else encoding.key(k, span)
    call = Call(query, key, v, encoding, span, (q, k), features, padding, causal, dropout, prefix)
    if observer is not None:
        observer(call)
    return kernel(call, backend)(call)


def kernel(call: Call, backend: str) -> Callable[[Call], Tensor]:
    """What computes the call: the backend by name, or the fastest that fits."""
    if backend != "auto":
        return NAMED[backend]
    return next((run for fits, run in FASTEST if fits(call)), dense)


def refuse(backend: str, encoding: PositionalEncoding) -> None:
    """Raises UserError where there is no such backend, or it can't serve the encoding."""
    if backend not in BACKENDS:
        raise UserError(f"attention.backend={backend!r} is not one of {', '.join(BACKENDS)}")
    if backend in ("sdpa", "flex") and not sdpa.serves(encoding):
        raise UserError(
            f"attention.backend={backend} can't serve {encoding.path} ({type(encoding).__name__}), which changes "
            "logits by content, or values; use attention.backend=auto or dense"
        )
