"""FlexAttention (Dong et al. 2024, arXiv:2412.05496) on a GPU: tables and biases are read inside the kernel, which also
makes their gradients, and no (L, L) tensor is there.

On a CPU it can't train (torch has no backward for it there) and is never chosen; asked for by name, it computes forward
passes, ten times slower than the others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from relformer.attention.call import Call
from relformer.attention.sdpa import serves, zeroed
from relformer.errors import UserError

SHORT = 128
"""Up to so many keys a dense mask costs less than a kernel that is compiled for it."""
LEAST_HEAD = 16
"""The smallest head the compiled kernel takes."""


def fits(call: Call) -> bool:
    """Whether auto takes it: on a GPU with Triton, where a table or bias is added over more than a few keys."""
    wide = call.q.is_cuda and call.q.shape[-2] > 1 and call.k.shape[-2] > SHORT and call.q.shape[-1] >= LEAST_HEAD
    added = call.span.table is not None or call.encoding.acts("bias")
    return wide and added and call.dropout == 0 and serves(call.encoding) and find_spec("triton") is not None


def flex(call: Call) -> Tensor:
    """(B, H, Q, D).

    Raises:
        UserError: a gradient on a CPU, or attention dropout, which the kernel has not.
    """
    path = call.encoding.path
    if call.dropout:
        raise UserError(
            "attention.backend=flex has no attention dropout; set model.attention_dropout=0 or backend=auto"
        )
    if not call.q.is_cuda and torch.is_grad_enabled() and call.q.requires_grad:
        raise UserError(f"attention.backend=flex can't train {path} on a CPU; set attention.backend=auto")
    queries, keys = call.q.shape[-2], call.k.shape[-2]
    run: Any = compiled() if call.q.is_cuda else flex_attention
    mask = None
    if call.keep is not None:
        mask = create_block_mask(visible(call.keep), call.keep.shape[0], None, queries, keys, device=str(call.q.device))
    out: Tensor = run(call.q, call.k, call.v, score_mod=added(call), block_mask=mask, scale=call.scale)
    return zeroed(out, call.keep)


@cache
def compiled() -> Callable[..., Any]:
    """One compiled kernel for all lengths; without compiling, (L, L) logits would be written out."""
    return torch.compile(flex_attention, dynamic=True)


def added(call: Call) -> Callable[..., Tensor] | None:
    """What the kernel adds to a logit. A table by distance is read where it stands; its gradient is summed by atomic
    adds, so that runs repeat only to rounding."""
    table = call.span.table
    if table is not None and call.span.relative.contiguous and not call.encoding.acts("bias"):
        last = call.q.shape[-2] - 1
        return lambda score, b, h, i, j: score + table[h, last - i + j].to(score.dtype)
    bias = call.bias
    if bias is None:
        return None
    batch, heads = bias.shape[:2]
    return lambda score, b, h, i, j: score + bias[b if batch > 1 else 0 * b, h if heads > 1 else 0 * h, i, j]


def visible(keep: Tensor) -> Callable[..., Tensor]:
    """The mask (B | 1, 1, Q | 1, K) as the kernel asks for it."""
    rows = keep.shape[-2]
    return lambda b, h, i, j: keep[b if keep.shape[0] > 1 else 0 * b, 0, i if rows > 1 else 0 * i, j]
