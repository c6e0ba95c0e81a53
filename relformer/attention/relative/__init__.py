"""Attention for encodings that meet rows by distance (Shaw, Transformer-XL, XLNet, TENER, DeBERTa), on a CPU.

Queries meet the rows in one product a block, and the pairs are a strided view of it: nothing is gathered, and nothing
larger than a block of `CHUNK` bytes is held, in forward or backward. The formula is that of
`relformer.encodings.relative`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from relformer.attention.call import Call
from relformer.attention.relative.function import Attention
from relformer.attention.relative.plan import Inputs, Plan, Window
from relformer.encodings import PositionalEncoding, Span
from relformer.encodings.relative import RelativeRows, Rows

CHUNK = 4 << 20
"""Bytes of logits held at once."""
ROWS = 64
"""Queries of a block: a block needs K + ROWS - 1 rows by distance."""
KEYS = 64
"""Keys that meet their rows at once."""
PAIRS = 128 * 128
"""Below this many pairs of a head the formula written out is faster in training."""


def serves(encoding: PositionalEncoding) -> bool:
    """Whether rows by distance are all that the encoding adds."""
    return isinstance(encoding, RelativeRows) and not any(map(encoding.acts, ("table", "bias", "visible")))


def fits(call: Call) -> bool:
    """Whether this is a fast path for the call."""
    queries, keys = call.q.shape[-2], call.k.shape[-2]
    return (
        serves(call.encoding)
        and call.span.relative.contiguous
        and call.dropout == 0
        and call.prefix is None
        and call.q.device.type == "cpu"
        and not torch.compiler.is_compiling()
        and queries > 1
        and queries * keys >= PAIRS
    )


def relative(call: Call) -> Tensor:
    """(B, H, Q, D). Fully masked rows give zeros."""
    encoding, span = call.encoding, call.span
    assert isinstance(encoding, RelativeRows) and isinstance(span.q, range) and isinstance(span.k, range)
    dtype = torch.promote_types(call.q.dtype, torch.float32)
    query, key = encoding.relative(*call.raw, span)
    x, at_x = query or (None, None)
    y, at_y = key or (None, None)
    x_rows, x_window = readable(at_x, span)
    value_rows, value_window = readable(encoding.relative_values(span), span)
    given = Inputs(
        call.q,
        call.k,
        call.v,
        None if x is call.q else x,
        x_rows,
        None if y is call.k else y,
        None if at_y is None else at_y.by_distance.flip(1),
        value_rows,
    )
    plan = Plan(
        scale=call.scale,
        start=span.q.start - span.k.start,
        causal=call.causal,
        padding=None if call.padding is None or bool(call.padding.all()) else call.padding,
        x_window=x_window,
        value_window=value_window,
        chunk=CHUNK,
        most_rows=ROWS,
        most_keys=KEYS,
    )
    with torch.autocast("cpu", enabled=False):
        out: Tensor = Attention.apply(plan, *(None if t is None else t.to(dtype) for t in given))
        return out.to(call.v.dtype)


def readable(rows: Rows | None, span: Span) -> tuple[Tensor | None, Window | None]:
    """Rows as a block reads them: clipped ones as they are, others one for each distance."""
    if rows is None:
        return None, None
    clip = rows.lookup.clip
    if clip is None:
        return rows.by_distance, None
    window = Window.of(clip, span)
    return window.trimmed(rows.rows), window
