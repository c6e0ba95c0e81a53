"""Blocks of logits by distance, and the same by key, without a copy.

c queries and K keys meet W = K + c - 1 distances. In a block by distance, (n, c, W), the pair (i, j) stands in column
j + (c - 1 - i): columns by key are a view with row stride W - 1. Between the rows of the view lie gaps of c - 2 places,
which belong to no pair of the block.
"""

from __future__ import annotations

import torch
from torch import Tensor


def block(room: Tensor, count: int, rows: int, keys: int) -> Tensor:
    """A block by distance in a flat buffer: (count, rows, keys + rows - 1)."""
    wide = keys + rows - 1
    return room[: count * rows * wide].view(count, rows, wide)


def by_key(wide: Tensor) -> Tensor:
    """By distance to by key: (n, c, K + c - 1) -> (n, c, K), a view."""
    n, c, w = wide.shape
    return wide.as_strided((n, c, w - c + 1), (c * w, max(w - 1, 1), 1), wide.storage_offset() + c - 1)


def clear_gaps(wide: Tensor) -> None:
    """Zeros where no pair stands, in place."""
    n, c, w = wide.shape
    wide[:, 0, : c - 1] = 0
    wide[:, -1, w - c + 1 :] = 0
    if c > 2:
        wide.as_strided((n, c - 1, c - 2), (c * w, w - 1, 1), wide.storage_offset() + w).zero_()


def product(out: Tensor, x: Tensor, rows: Tensor, scale: float) -> Tensor:
    """out = scale x @ rowsᵀ, head by head: x (n, c, D), rows (H | 1, N, D), out (n, c, N) contiguous."""
    heads, count, size = rows.shape
    flat = out.view(heads, -1, count)
    torch.baddbmm(flat, x.view(heads, -1, size), rows.mT, beta=0, alpha=scale, out=flat)
    return out


def product_back(wide: Tensor, rows: Tensor, scale: float) -> Tensor:
    """The gradient of x in `product`: scale wide @ rows, (n, c, D)."""
    n, c, count = wide.shape
    heads, _, size = rows.shape
    out = wide.new_empty(n, c, size)
    flat = out.view(heads, -1, size)
    torch.baddbmm(flat, wide.view(heads, -1, count), rows, beta=0, alpha=scale, out=flat)
    return out


def collect(grad: Tensor, wide: Tensor, x: Tensor, scale: float) -> None:
    """The gradient of rows in `product`: grad (H | 1, N, D) += scale wideᵀ x, over all that share a head's rows."""
    heads = len(grad)
    wide, x = (t.view(heads, -1, t.shape[-1]) for t in (wide, x))
    torch.baddbmm(grad, wide.mT, x, alpha=scale, out=grad)
