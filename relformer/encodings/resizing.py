"""Tables of a trained encoding in one of another size: what `init_from` carries over."""

from __future__ import annotations

import torch
from torch import Tensor


def reread(new: Tensor, old: Tensor, rows: Tensor, old_rows: Tensor) -> Tensor | None:
    """Row rows[n] as the old table has it in old_rows[n], where both read the same: a distance, a position.

    A row that several of n read is as the first of them has it; one that none reads stays as it was drawn. None where
    a row has another form.
    """
    if new.shape[1:] != old.shape[1:]:
        return None
    taken = dict(zip(reversed(rows.tolist()), reversed(old_rows.tolist()), strict=True))
    made = new.detach().clone()
    made[torch.tensor(list(taken))] = old.detach()[torch.tensor(list(taken.values()))]
    return made


def overlaid(new: Tensor, old: Tensor, grown: tuple[int, ...] = (0,)) -> Tensor | None:
    """The old values as far as both reach in the dimensions `grown`; what lies beyond stays as it was drawn. None where
    another dimension differs."""
    sizes = list(zip(new.shape, old.shape, strict=True)) if new.dim() == old.dim() else [(0, 1)]
    if any(one != other for dim, (one, other) in enumerate(sizes) if dim not in grown):
        return None
    common = tuple(slice(min(pair)) for pair in sizes)
    made = new.detach().clone()
    made[common] = old.detach()[common]
    return made


def nearest_first(reach: int) -> Tensor:
    """Distances from -reach to reach, the nearest first: (2 reach + 1,)."""
    distance = torch.arange(-reach, reach + 1)
    return distance[distance.abs().argsort(stable=True)]
