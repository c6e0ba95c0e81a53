"""Attention under a bias of distance alone, on a CPU: the bias of all pairs is never written out for long sequences.

Causality and windows are -inf in the table, so that what is hidden is hidden by distance too, and skipped; keys beyond
the right padding of a sample are skipped, and other padding is masked in the chunks.
"""

from __future__ import annotations

import torch
from torch import Tensor

from relformer.attention.call import Call
from relformer.attention.toeplitz import flash
from relformer.attention.toeplitz.chunked import Chunked
from relformer.attention.toeplitz.geometry import Geometry, hidden
from relformer.attention.toeplitz.short import Short
from relformer.encodings import PositionalEncoding
from relformer.encodings.span import pairs

SHORT = 192
"""The length up to which writing out all pairs is faster."""


def serves(encoding: PositionalEncoding) -> bool:
    """Whether the encoding acts on logits by distance alone."""
    if encoding.acts("bias") or encoding.acts("score") or encoding.acts("value"):
        return False
    return encoding.acts("table") or encoding.acts("visible")


def fits(call: Call) -> bool:
    """Whether this is a fast path for the call. A step of one token is as well served by a row of the table as mask,
    and a short call without padding by all pairs as mask, unless that needs a gradient."""
    if call.q.device.type != "cpu" or call.q.shape[2] == 1 or call.dropout > 0:
        return False
    if not serves(call.encoding) or not call.span.relative.contiguous or call.prefix is not None:
        return False
    return call.padding is not None or learned(call) or not small(call)


def learned(call: Call) -> bool:
    """Whether the table needs a gradient."""
    table = call.span.table
    return table is not None and table.requires_grad and torch.is_grad_enabled()


def small(call: Call) -> bool:
    return call.q.shape[2] * call.k.shape[2] <= SHORT**2


def toeplitz(call: Call) -> Tensor:
    """(B, H, Q, D). Fully masked rows give zeros."""
    dtype = torch.promote_types(call.q.dtype, torch.float32)
    table, mask = call.span.table, hidden(call)
    if table is None:
        table = torch.zeros(len(call.span.relative.distance)).expand(call.q.shape[1], -1)
    table = table.to(dtype)
    if mask is not None:
        table = table.masked_fill(mask, -torch.inf)
    where = Geometry.of(call, mask)
    if not small(call):
        if not (learned(call) or where.cut or where.lengths or where.pad is not None):
            return flash.fixed(call.q, call.k, call.v, table, call.scale)
        return Chunked.apply(call.q, call.k, call.v, table, where, call.scale)
    padding = None
    if call.padding is not None:
        padding = torch.zeros(call.padding.shape, dtype=dtype).masked_fill_(~call.padding, -torch.inf)[:, None, None]
    bias = pairs(table, where.keys)
    return Short.apply(call.q, call.k, call.v, bias, padding, where.blind, call.scale)
