"""How a signal ends the ranks of a run together, and how a rank that waits says that it lives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.trainer.connectors.signal_connector import _SignalConnector
from torch import distributed

from relformer.training.ranks import Watch
from relformer.training.signals import ENDING, Interrupted, Signals

NUMBERS = list(ENDING)


class OwnSignals(_SignalConnector):
    """Lightning's place for handlers, left empty. Its handler waits for the other ranks where it stands, which hangs,
    ends with exit code 0, and under SLURM writes a checkpoint of its own from within."""

    def register_signal_handlers(self) -> None:
        self.received_sigterm = False


class Stopping(Checkpoint):
    """Behind all other callbacks. At a step's end the ranks agree on a signal that any of them received; then all save,
    and end before the next step begins, when what was measured has been logged. While they validate, the last
    checkpoint is that step's, and nothing holds a signal back.

    Args:
        save: writes the last checkpoint, unless that of this step is there; called on every rank.
    """

    def __init__(self, signals: Signals, watch: Watch, save: Callable[[Trainer], None]) -> None:
        self.signals, self.watch, self.save = signals, watch, save
        self.ending: int | None = None
        self.group: Any = None
        self.step = -1

    def setup(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        self.watch.arm()

    def teardown(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        self.watch.disarm()

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        if trainer.world_size > 1:
            self.group = distributed.new_group(backend="gloo")  # on the CPU: a flag on a GPU would wait for the step
        self.step = trainer.global_step
        self.signals.hold()

    def on_train_batch_start(self, trainer: Trainer, module: LightningModule, *_: object) -> None:
        self.watch.beat()
        self.end_if_agreed()

    def on_train_batch_end(self, trainer: Trainer, module: LightningModule, *_: object) -> None:
        self.watch.beat()
        if trainer.global_step == self.step:
            return  # more batches of this step
        self.step = trainer.global_step
        self.ending = self.agreed(trainer)
        if self.ending is not None:
            self.save(trainer)

    def agreed(self, trainer: Trainer) -> int | None:
        """The signal that ends the run, the same on all ranks."""
        received = self.signals.received
        if trainer.world_size == 1:
            return received
        place = torch.tensor(-1 if received is None else NUMBERS.index(received))  # type: ignore[arg-type]
        distributed.all_reduce(place, distributed.ReduceOp.MAX, self.group)
        return NUMBERS[int(place)] if place >= 0 else None

    def end_if_agreed(self) -> None:
        if self.ending is not None:
            raise Interrupted(self.ending)

    def on_validation_start(self, trainer: Trainer, module: LightningModule) -> None:
        self.watch.beat()
        if trainer.state.fn == "fit":
            self.end_if_agreed()
            self.signals.release()

    def on_validation_batch_end(self, trainer: Trainer, module: LightningModule, *_: object) -> None:
        self.watch.beat()

    def on_test_batch_end(self, trainer: Trainer, module: LightningModule, *_: object) -> None:
        self.watch.beat()

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        self.watch.beat()
        if trainer.state.fn == "fit":
            self.signals.hold()

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        self.end_if_agreed()
        self.signals.release()
