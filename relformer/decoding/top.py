"""The k largest logits of each row in two stages, since on a CPU `topk` over thousands of columns is slow."""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK = 100
"""Columns a block."""


def top(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Values and columns of the k largest of each row, largest first: (N, V) -> (N, k) each; at most V of them.

    They lie in the k blocks with the largest maxima, or in the columns behind the last whole block.
    """
    vocabulary = logits.shape[-1]
    if k >= vocabulary // BLOCK:
        values, columns = logits.topk(min(k, vocabulary))
        return values, columns
    whole = vocabulary - vocabulary % BLOCK
    blocks = logits[:, :whole].unflatten(-1, (-1, BLOCK))
    chosen = blocks.amax(-1).topk(k).indices  # (N, k)
    within = blocks.gather(1, chosen[..., None].expand(-1, -1, BLOCK)).flatten(1)
    values, index = torch.cat((within, logits[:, whole:]), dim=1).topk(k)
    place = (index // BLOCK).clamp(max=k - 1)
    columns = chosen.gather(-1, place) * BLOCK + index % BLOCK
    return values, torch.where(index < k * BLOCK, columns, index - k * BLOCK + whole)
