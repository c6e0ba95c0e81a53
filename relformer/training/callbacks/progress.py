"""A line of progress every so many steps and at each validation, instead of a bar: it reads as well in a log file."""

from __future__ import annotations

import logging
import time

import lightning.pytorch as pl
from lightning.pytorch import LightningModule, Trainer

from relformer.errors import OptionError

logger = logging.getLogger("relformer")


class Progress(pl.Callback):
    def __init__(self, every_n_steps: int = 250) -> None:
        if every_n_steps < 1:
            raise OptionError("every_n_steps", every_n_steps, "must be at least 1", "callbacks.progress")
        self.every_n_steps = every_n_steps

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        self.began, self.first = time.monotonic(), trainer.global_step
        self.printed = self.first

    def on_train_batch_end(self, trainer: Trainer, module: LightningModule, *_: object) -> None:
        step = trainer.global_step
        if step == self.printed or step % self.every_n_steps:
            return
        self.printed = step
        left = (time.monotonic() - self.began) / (step - self.first) * (trainer.max_steps - step)
        if "train/loss" in trainer.callback_metrics:
            self.say(trainer, f"loss {float(trainer.callback_metrics['train/loss']):.4f}   {left:.0f} s left")

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        if trainer.state.fn != "fit" or trainer.sanity_checking:
            return
        found = {
            name.split("/")[1]: float(value)
            for name, value in trainer.callback_metrics.items()
            if name.startswith("val/") and name.endswith("/exact_match")
        }
        said = "exact match " + "   ".join(f"{name} {value:.3f}" for name, value in found.items())
        if "val/iid/bleu" in trainer.callback_metrics:
            said += f"   BLEU of a sample {float(trainer.callback_metrics['val/iid/bleu']):.1f}"
        self.say(trainer, said)

    def say(self, trainer: Trainer, text: str) -> None:
        if trainer.is_global_zero:
            logger.info("step %5d/%d   %s", trainer.global_step, trainer.max_steps, text)
