"""What looking cost: the share of training time that went into measuring and drawing."""

from __future__ import annotations

import logging
import time

import lightning.pytorch as pl
from lightning.pytorch import LightningModule, Trainer

from relformer.training.callbacks.measuring import SPENT

logger = logging.getLogger("relformer")


class FigureCost(pl.Callback):
    """Says and logs `figures/seconds` and `figures/share_of_training`. Stands behind the callbacks that it counts."""

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        self.began = time.perf_counter() - SPENT.get(module, 0.0)

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        if not trainer.is_global_zero:
            return
        spent, whole = SPENT.get(module, 0.0), time.perf_counter() - self.began
        share = 100 * spent / whole
        logger.info("measuring and drawing took %.1f s of %.0f s of training (%.1f %%)", spent, whole, share)
        for each in trainer.loggers:
            numbers = {"figures/seconds": spent, "figures/share_of_training": spent / whole}
            each.log_metrics(numbers, step=trainer.global_step)
