"""The checkpoint a run goes on from, and the validation that it may still owe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint

from relformer.errors import OptionError


class LastCheckpoint(Checkpoint):
    """Saves `path` every so many optimizer steps, before each validation and at the end: while the model is looked at,
    all that was learned is on disk. Runs on every rank.

    A run that goes on from before a validation makes it first: Lightning would leave it out, and the best checkpoint
    and early stopping would miss a figure. The log of the last step is written after the checkpoint, so the checkpoint
    holds it too, and a run that goes on writes it again.
    """

    def __init__(self, path: str, every_n_train_steps: int = 250) -> None:
        if every_n_train_steps < 1:
            rule = "must be at least 1"
            raise OptionError("every_n_train_steps", every_n_train_steps, rule, "callbacks.last_checkpoint")
        self.path, self.every_n_train_steps = Path(path), every_n_train_steps
        self.saved = -1
        self.logged: dict[str, Any] = {}
        """Of the step that was saved: its number and figures, where it logs any."""

    def state_dict(self) -> dict[str, Any]:
        return self.logged

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.logged = state_dict

    def on_fit_start(self, trainer: Trainer, module: LightningModule) -> None:
        for logger in trainer.loggers if self.logged else ():
            logger.log_metrics({"epoch": trainer.current_epoch} | self.logged["figures"], step=self.logged["step"])

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        self.saved = trainer.global_step
        loop = trainer.fit_loop.epoch_loop
        if loop.restarted_on_train_batch_end and validated_after(trainer):
            first, trainer.validating = trainer._logger_connector._first_loop_iter, True
            loop.val_loop.restarting = False
            loop.val_loop.run()
            trainer.training, trainer._logger_connector._first_loop_iter = True, first

    def on_train_batch_end(self, trainer: Trainer, module: LightningModule, *_: object) -> None:
        step = trainer.global_step
        if step % self.every_n_train_steps == 0 or step == trainer.max_steps or validated_after(trainer):
            self.save(trainer)

    def save(self, trainer: Trainer) -> None:
        """Once a step."""
        if trainer.global_step != self.saved:
            self.saved = trainer.global_step
            self.logged = to_be_logged(trainer)
            trainer.save_checkpoint(self.path, weights_only=False)


def validated_after(trainer: Trainer) -> bool:
    """Whether a validation follows the batch just trained."""
    return (trainer.fit_loop.total_batch_idx + 1) % int(trainer.val_check_batch or 1) == 0


def to_be_logged(trainer: Trainer) -> dict[str, Any]:
    """What Lightning is about to log of the batch just trained."""
    connector, loop = trainer._logger_connector, trainer.fit_loop
    if loop._should_accumulate() or not connector.should_update_logs:
        return {}
    figures = {key: float(value) for key, value in connector.metrics["log"].items()}
    return {"step": loop.epoch_loop._batches_that_stepped, "figures": figures}
