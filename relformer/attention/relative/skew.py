"""Blocks whose row i is shifted by i: from columns by distance to columns by key, without a copy.

A block of c rows and K keys meets K + c - 1 distances. In a buffer (n, c, K + c - 1) of products with the rows by
distance, the pair (i, j) stands in column j + (c - 1 - i): a view with row stride K + c - 2. Between the rows of the
view lie gaps of c - 2 places, which belong to no pair of the block.
"""

from __future__ import annotations

import torch
from torch import Tensor


def width(rows: int, keys: int) -> int:
    """Distances that a block meets."""
    return keys + rows - 1


def product(room: Tensor, x: Tensor, rows: Tensor, scale: float) -> Tensor:
    """scale x @ rowsᵀ in a flat buffer: x (n, c, D), rows (H | 1, N, D), head by head -> (n, c, N)."""
    n, c, size = x.shape
    heads, count, _ = rows.shape
    out = room[: n * c * count].view(heads, -1, count)
    torch.baddbmm(out, x.view(heads, -1, size), rows.mT, beta=0, alpha=scale, out=out)
    return out.view(n, c, count)


def by_key(wide: Tensor, keys: int, first: int = 0) -> Tensor:
    """Columns by distance to columns by key: (n, c, W) -> (n, c, keys), a view; `first` columns are passed over."""
    n, c, w = wide.shape
    return wide.as_strided((n, c, keys), (c * w, max(w - 1, 1), 1), wide.storage_offset() + c - 1 + first)


def clear_gaps(wide: Tensor) -> None:
    """Zeros where no pair of a full block stands: (n, c, K + c - 1), in place."""
    n, c, w = wide.shape
    keys = w - c + 1
    wide[:, 0, : c - 1] = 0
    wide[:, -1, keys:] = 0
    if c > 2:
        wide.as_strided((n, c - 1, c - 2), (c * w, w - 1, 1), wide.storage_offset() + c - 1 + keys).zero_()


def collect(grad: Tensor, wide: Tensor, x: Tensor, scale: float) -> None:
    """grad (H | 1, N, D) += scale wideᵀ x, over all rows that share a head's table."""
    heads = len(grad)
    torch.baddbmm(
        grad, wide.view(heads, -1, wide.shape[-1]).mT, x.view(heads, -1, x.shape[-1]), alpha=scale, out=grad
    )


def returned(wide: Tensor, rows: Tensor, scale: float) -> Tensor:
    """scale wide @ rows: (n, c, N) and (H | 1, N, D) -> (n, c, D)."""
    n, c, count = wide.shape
    out = wide.new_empty(len(rows), n * c // len(rows), rows.shape[-1])
    torch.baddbmm(out, wide.view(len(rows), -1, count), rows, beta=0, alpha=scale, out=out)
    return out.view(n, c, -1)
