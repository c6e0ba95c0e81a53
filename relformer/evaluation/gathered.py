"""Outcomes of a set, from all ranks; a file of its own, since a wrong option need not wait for torchmetrics."""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics import Metric


class Outcomes(Metric):
    """The outcomes of a set, gathered from all ranks; rows of filler examples (index < 0) are dropped."""

    full_state_update = False
    rows: list[Tensor]

    def __init__(self) -> None:
        super().__init__()
        self.add_state("rows", default=[], dist_reduce_fx="cat")

    def update(self, rows: Tensor) -> None:
        self.rows.append(rows)

    def compute(self) -> Tensor:
        """(n, len(COLUMNS)) float64 on the CPU, one row an example, in the order of the set."""
        rows = torch.cat(list(self.rows)) if isinstance(self.rows, list) else self.rows
        rows = rows[rows[:, 0] >= 0].double().cpu()
        return rows[rows[:, 0].argsort()]
