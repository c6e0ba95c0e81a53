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
from relformer.attention.relative.plan import Plan, Window
from relformer.encodings import PositionalEncoding
from relformer.encodings.relative import RelativeRows, Rows

CHUNK = 4 << 20
"""Bytes of logits held at once."""
ROWS = 64
"""Queries of a block: a block needs K + ROWS - 1 rows by distance."""
KEYS = 64
"""Keys that meet their rows at once."""
PAIRS = 160 * 160
"""Below this many pairs of a head the formula written out is as fast."""


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
        and call.q.device.type == "cpu"
        and queries > 1
        and queries * keys >= PAIRS
    )


def relative(call: Call) -> Tensor:
    """(B, H, Q, D). Fully masked rows give zeros."""
    encoding, span = call.encoding, call.span
    assert isinstance(encoding, RelativeRows) and isinstance(span.q, range) and isinstance(span.k, range)
    dtype = torch.promote_types(call.q.dtype, torch.float32)
    query, key = encoding.relative(*call.raw, span)
    values = encoding.relative_values(span)
    clipped = next((rows.lookup.clip for rows in (query and query[1], values) if rows), None)
    window = None if clipped is None else Window.of(clipped, span)
    plan = Plan(
        scale=call.scale,
        start=span.q.start - span.k.start,
        causal=call.causal,
        padding=None if call.padding is None or bool(call.padding.all()) else call.padding,
        window=window,
        chunk=CHUNK,
        most_rows=ROWS,
        most_keys=KEYS,
    )

    def table(rows: Rows) -> Tensor:
        return rows.by_distance if window is None else window.trimmed(rows.rows)

    inputs: list[Tensor | None] = [call.q, call.k, call.v]
    for met, side, flipped in ((query, call.q, False), (key, call.k, True)):
        if met is None:
            inputs += [None, None]
            continue
        meeting, rows = met
        by_row = table(rows)
        inputs += [None if meeting is side else meeting, by_row.flip(1) if flipped else by_row]
    inputs.append(None if values is None else table(values))
    with torch.autocast("cpu", enabled=False):
        out: Tensor = Attention.apply(plan, *(None if t is None else t.to(dtype) for t in inputs))
        return out.to(call.v.dtype)
