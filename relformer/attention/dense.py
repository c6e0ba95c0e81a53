"""Attention written out: the reference for every other backend, and the one that serves every hook."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from relformer.attention.call import Call


def dense(call: Call) -> Tensor:
    """(B, H, Q, D). Fully masked rows give zeros."""
    weights = F.dropout(call.weights().to(call.v.dtype), call.dropout, training=call.dropout > 0)
    out = weights @ call.v
    extra = call.encoding.value(weights, call.span)
    if extra is not None:
        out = out + extra
    return out if call.keep is None else out * call.keep.any(-1, keepdim=True)
