"""Lightning's early stopping, for runs that are continued."""

from __future__ import annotations

from typing import Any

import lightning.pytorch.callbacks as stock
from lightning.pytorch import LightningModule, Trainer

from relformer.evaluation.summary import falls


class EarlyStopping(stock.EarlyStopping):
    """A run that has stopped stays so when it is started again, until `patience` is raised: the stock callback takes
    `patience` from the checkpoint, and trains on to the next validation. A loss should fall, any other figure rise."""

    def __init__(self, monitor: str, **options: Any) -> None:
        super().__init__(monitor, mode="min" if falls(monitor) else "max", **options)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict | {"patience": self.patience})

    def on_fit_start(self, trainer: Trainer, module: LightningModule) -> None:
        trainer.should_stop = trainer.should_stop or self.wait_count >= self.patience
