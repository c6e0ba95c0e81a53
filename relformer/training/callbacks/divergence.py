"""A loss that rises again for good: said once, and on request the end of the run."""

from __future__ import annotations

import logging
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch import LightningModule, Trainer

from relformer.errors import OptionError, RunError

logger = logging.getLogger("relformer")
SMOOTHING = 0.9
"""What the running mean keeps at each reading: it is a mean of about ten."""
LEAST_RISE = 0.5
"""Nats a token below which no rise counts, whatever share it is."""


class Divergence(pl.Callback):
    """Follows a running mean of `train/loss`, which is equal on all ranks.

    The run has diverged where the mean has risen, from its lowest, by more than `share` of what training had gained
    since its first reading, and by more than half a nat. Warned of once a run; `best.ckpt` is kept in any case.

    Args:
        every_n_steps: optimizer steps between readings.
        share: 0.5 is half of the gain.
        stop: end the run there, with exit code 1.
    """

    def __init__(self, every_n_steps: int = 10, share: float = 0.5, stop: bool = False) -> None:
        if every_n_steps < 1:
            raise OptionError("every_n_steps", every_n_steps, "must be at least 1", "callbacks.divergence")
        if not share > 0:
            raise OptionError("share", share, "must be positive: it is a share of the gain", "callbacks.divergence")
        self.every_n_steps, self.share, self.stop = every_n_steps, share, stop
        self.mean: float | None = None
        self.first, self.lowest, self.lowest_step, self.read, self.said = 0.0, 0.0, 0, 0, False

    def on_train_batch_end(self, trainer: Trainer, module: LightningModule, *_: object) -> None:
        step = trainer.global_step
        if self.said or step == self.read or step % self.every_n_steps:
            return
        self.read = step
        if "train/loss" in trainer.callback_metrics:
            self.see(trainer, float(trainer.callback_metrics["train/loss"]))

    def see(self, trainer: Trainer, loss: float) -> None:
        if loss != loss or abs(loss) == float("inf"):
            return  # `FiniteSteps` deals with it
        if self.mean is None:
            self.mean = self.first = self.lowest = loss
        self.mean = SMOOTHING * self.mean + (1 - SMOOTHING) * loss
        if self.mean < self.lowest:
            self.lowest, self.lowest_step = self.mean, trainer.global_step
        if self.mean - self.lowest <= max(self.share * (self.first - self.lowest), LEAST_RISE):
            return
        self.said = True
        text = (
            f"step {trainer.global_step}: training diverges, the loss is about {self.mean:.3g} again; it was "
            f"{self.lowest:.3g} at step {self.lowest_step} and {self.first:.3g} at the start. Lower optimizer.lr, set "
            "trainer.gradient_clip_val=1, or take a longer scheduler.warmup_steps"
        )
        if self.stop:
            kept = "the best weights on validation so far are kept (eval.checkpoint=best_val)"
            raise RunError(f"{text}; {kept}" if trainer.is_global_zero else "")
        if trainer.is_global_zero:
            logger.warning("%s", text)

    def state_dict(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in ("mean", "first", "lowest", "lowest_step", "read", "said")}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        vars(self).update(state_dict)
