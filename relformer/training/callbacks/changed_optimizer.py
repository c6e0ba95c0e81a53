"""The options of a continued run's optimizer and schedule, where they are not those it was begun with."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl
from lightning.pytorch import Trainer

from relformer.training.module import Seq2SeqModule


class ChangedOptimizer(pl.Callback):
    """Puts the new options of optimizer and schedule in force; a checkpoint's own would come back with its state."""

    def on_load_checkpoint(self, trainer: Trainer, module: pl.LightningModule, checkpoint: dict[str, Any]) -> None:
        assert isinstance(module, Seq2SeqModule)
        fresh = module.configure_optimizers()
        scheduler = fresh["lr_scheduler"]["scheduler"]
        stored = checkpoint["lr_schedulers"][0]
        rates = [
            base * factor(stored["last_epoch"])
            for base, factor in zip(scheduler.base_lrs, scheduler.lr_lambdas, strict=True)
        ]
        stored |= {"base_lrs": scheduler.base_lrs, "_last_lr": rates}
        groups = zip(
            checkpoint["optimizer_states"][0]["param_groups"], fresh["optimizer"].param_groups, rates, strict=True
        )
        for group, new, rate in groups:
            group |= {key: value for key, value in new.items() if key != "params"} | {"lr": rate}
