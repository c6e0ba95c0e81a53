"""The checkpoint with the best value of one validation figure.

What is best so far is read from the file itself: a run that was killed between a save and a validation can't forget it.
"""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint

from relformer.evaluation.summary import falls
from relformer.training.sealing import damage, known_step

logger = logging.getLogger("relformer")


class BestCheckpoint(Checkpoint):
    """Saves `path` whenever `monitor` improves: a loss falls, any other figure rises. Runs on every rank."""

    def __init__(self, path: str, monitor: str = "val/iid/loss") -> None:
        self.path, self.monitor = Path(path), monitor
        self.sign = 1 if falls(monitor) else -1
        self.score: float | None = None

    def on_fit_start(self, trainer: Trainer, module: LightningModule) -> None:
        if not self.path.exists():
            return
        if fault := damage(self.path):
            self.score = None
            logger.warning("warning: %s is damaged: %s; the best is sought anew from here on", self.path, fault)
            return
        stored = torch.load(self.path, map_location="cpu", weights_only=True)["callbacks"]
        self.score = stored.get(self.state_key, {}).get("score")

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        if trainer.state.fn == "fit":
            self.keep(trainer)

    def keep(self, trainer: Trainer) -> None:
        """Save the present weights if the validation just made is the best."""
        value = float(trainer.callback_metrics[self.monitor])
        best = math.nan if self.score is None else self.score
        if math.isnan(best) or self.sign * value < self.sign * best:  # nothing is better than NaN by comparison
            before, self.score = self.score, value  # which the checkpoint holds
            trainer.save_checkpoint(self.path, weights_only=False)
            wrote = known_step(self.path) == trainer.global_step
            if not trainer.strategy.broadcast(wrote):  # on_full=go_on
                self.score = before

    def state_dict(self) -> dict[str, Any]:
        return {"score": self.score}
