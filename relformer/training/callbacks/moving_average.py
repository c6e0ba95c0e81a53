"""Lightning's moving average of the weights, for runs that are continued after their end."""

from __future__ import annotations

from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import EMAWeightAveraging


class MovingAverage(EMAWeightAveraging):
    """After training the model has the average, and this callback the weights as they were trained: the stock callback
    forgets them, and a longer run would go on from the average."""

    def __init__(self, decay: float = 0.999, **options: Any) -> None:
        super().__init__(decay=decay, **options)
        self.exchanged = False

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        """Nothing: a finished run that is started again does not train, and gets here all the same at the end of
        fit."""

    def on_fit_end(self, trainer: Trainer, module: LightningModule) -> None:
        self._swap_models(module)
        self.exchanged = True

    def on_validation_epoch_start(self, trainer: Trainer, module: LightningModule) -> None:
        if not self.exchanged:
            super().on_validation_epoch_start(trainer, module)

    def on_validation_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
        if not self.exchanged:
            super().on_validation_epoch_end(trainer, module)

    def on_save_checkpoint(self, trainer: Trainer, module: LightningModule, checkpoint: dict[str, Any]) -> None:
        super().on_save_checkpoint(trainer, module, checkpoint)
        if self.exchanged:
            averaged = checkpoint["current_model_state"]
            checkpoint["current_model_state"] = checkpoint["state_dict"]
            checkpoint["state_dict"] = averaged
