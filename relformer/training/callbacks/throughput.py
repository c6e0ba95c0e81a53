"""What training costs: the median time of an optimizer step, and the CPU time of the process."""

from __future__ import annotations

import statistics
import time
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch import LightningModule, Trainer

WARM_UP = 5


class Throughput(pl.Callback):
    """`seconds_per_step` after training: from the start of a step's first batch to the end of its last, without
    validation, checkpoints and the first steps. Of a continued run, the figure of the stretch with the most steps.

    `cpu_seconds` until the last step: of all threads of the first rank's process, from its start, with what lies
    between steps. Of a continued run, those up to its checkpoint are added.
    """

    def __init__(self) -> None:
        self.times: list[float] = []
        self.earlier: tuple[int, float | None] = (0, None)
        """Steps measured before this start, and their figure."""
        self.began: float | None = None
        self.cpu_before = self.cpu_seconds = 0.0

    def on_train_batch_start(self, trainer: Trainer, module: LightningModule, batch: object, index: int) -> None:
        if self.began is None:
            self.began, self.step = time.perf_counter(), trainer.global_step

    def on_train_batch_end(self, trainer: Trainer, module: LightningModule, *_: object) -> None:
        if self.began is not None and trainer.global_step > self.step:
            self.times.append(time.perf_counter() - self.began)
            self.began = None
            self.cpu_seconds = self.cpu_before + time.process_time()

    def state_dict(self) -> dict[str, Any]:
        return {
            "steps": max(self.earlier[0], len(self.measured)),
            "seconds_per_step": self.seconds_per_step,
            "cpu_seconds": self.cpu_seconds,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.earlier = state_dict["steps"], state_dict["seconds_per_step"]
        self.cpu_before = self.cpu_seconds = state_dict.get("cpu_seconds", 0.0)

    @property
    def measured(self) -> list[float]:
        return self.times[WARM_UP:]

    @property
    def seconds_per_step(self) -> float | None:
        steps, earlier = self.earlier
        return statistics.median(self.measured) if len(self.measured) > steps else earlier
