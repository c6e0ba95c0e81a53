"""The median time of an optimizer step, without validation, checkpoints and the first steps."""

from __future__ import annotations

import statistics
import time

import lightning.pytorch as pl
from lightning.pytorch import LightningModule, Trainer

WARM_UP = 5


class Throughput(pl.Callback):
    """`seconds_per_step` after training: from the start of a step's first batch to the end of its last."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.began: float | None = None

    def on_train_batch_start(self, trainer: Trainer, module: LightningModule, batch: object, index: int) -> None:
        if self.began is None:
            self.began, self.step = time.perf_counter(), trainer.global_step

    def on_train_batch_end(self, trainer: Trainer, module: LightningModule, *_: object) -> None:
        if self.began is not None and trainer.global_step > self.step:
            self.times.append(time.perf_counter() - self.began)
            self.began = None

    @property
    def seconds_per_step(self) -> float | None:
        measured = self.times[WARM_UP:]
        return statistics.median(measured) if measured else None
