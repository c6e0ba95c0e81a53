"""torch's scaled_dot_product_attention, for encodings that act on queries, keys and additive biases alone."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from relformer.attention.call import Call
from relformer.encodings import PositionalEncoding


def serves(encoding: PositionalEncoding) -> bool:
    """Whether the encoding leaves logits and values alone but for a bias."""
    return not (encoding.acts("score") or encoding.acts("value"))


def fits(call: Call) -> bool:
    """Whether this is a fast path for the call. On a CPU a mask that needs a gradient silently leaves the fast kernel
    (1.9 to 3.1 times the time)."""
    if not serves(call.encoding):
        return False
    bias = call.bias
    slow = bias is not None and bias.requires_grad and torch.is_grad_enabled() and bias.device.type == "cpu"
    return not slow


def sdpa(call: Call) -> Tensor:
    """(B, H, Q, D). A square causal mask alone has a path of its own."""
    keep, bias = call.keep, call.bias
    square = call.causal and isinstance(call.span.q, range) and call.span.q == call.span.k
    causal = (
        square and call.padding is None and call.prefix is None and bias is None and not call.encoding.acts("visible")
    )
    if bias is None:
        mask = None if causal else keep
    else:
        mask = bias if keep is None else bias.masked_fill(~keep, float("-inf"))
    out = F.scaled_dot_product_attention(
        call.q, call.k, call.v, attn_mask=mask, dropout_p=call.dropout, is_causal=causal, scale=call.scale
    )
    return zeroed(out, None if causal else keep)


def zeroed(out: Tensor, keep: Tensor | None) -> Tensor:
    """The output with zeros where a query sees no key, for which kernels give what they like."""
    return out if keep is None else out.masked_fill(~keep.any(-1, keepdim=True), 0.0)
