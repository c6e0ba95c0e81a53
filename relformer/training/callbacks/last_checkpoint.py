"""The checkpoint a stopped run goes on from."""

from __future__ import annotations

from pathlib import Path

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint

from relformer.errors import OptionError


class LastCheckpoint(Checkpoint):
    """Saves `path` every n optimizer steps, and where a validation is due after the step, behind that.

    Lightning's ModelCheckpoint saves before: a run that is killed in the validation goes on without it, so that the
    best checkpoint and early stopping miss a figure. Runs on every rank, behind all other callbacks.
    """

    def __init__(self, path: str, every_n_train_steps: int = 250) -> None:
        if every_n_train_steps < 1:
            rule = "must be at least 1"
            raise OptionError("every_n_train_steps", every_n_train_steps, rule, "callbacks.last_checkpoint")
        self.path, self.every_n_train_steps = Path(path), every_n_train_steps
        self.saved = 0
        """The step of the last save: several batches may make a step."""

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        self.saved = trainer.global_step

    def on_train_batch_end(self, trainer: Trainer, module: LightningModule, *_: object) -> None:
        if not validation_due(trainer):
            self.keep(trainer)

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        if trainer.state.fn == "fit":
            self.keep(trainer)

    def keep(self, trainer: Trainer) -> None:
        if trainer.global_step % self.every_n_train_steps == 0 and trainer.global_step > self.saved:
            self.saved = trainer.global_step
            trainer.save_checkpoint(self.path, weights_only=False)


def validation_due(trainer: Trainer) -> bool:
    """Whether a validation follows the batch just trained, before the next one."""
    return (trainer.fit_loop.total_batch_idx + 1) % int(trainer.val_check_batch) == 0  # type: ignore[arg-type]
