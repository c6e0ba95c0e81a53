"""A callback that spoils chosen steps of a run, on chosen ranks, as bad data or an overflow would."""

from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch import LightningModule, Trainer

from relformer.data.batching import Batch
from tests.reliability.disks import fill


class Poison(pl.Callback):
    """`kind`: ``loss`` makes a batch's loss NaN; ``gradient`` makes one element of the gradient infinite and leaves the
    loss; ``memory`` and ``allocator`` raise what a GPU and a CPU without memory do. Steps count from 1."""

    def __init__(self, steps: list[int], kind: str = "loss", ranks: list[int] | None = None) -> None:
        self.steps, self.kind, self.ranks = steps, kind, ranks
        self.armed = False

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        if self.kind == "gradient":
            next(module.parameters()).register_hook(self.spoilt)

    def spoilt(self, gradient: torch.Tensor) -> torch.Tensor:
        return gradient + torch.inf if self.armed else gradient

    def on_train_batch_start(self, trainer: Trainer, module: LightningModule, batch: Batch, index: int) -> None:
        last = (index + 1) % trainer.accumulate_grad_batches == 0
        ours = self.ranks is None or trainer.global_rank in self.ranks
        self.armed = ours and trainer.global_step + 1 in self.steps and last
        if not self.armed:
            return
        if self.kind == "loss":
            batch.tokens = float("nan")
        elif self.kind == "memory":
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nSee documentation")
        elif self.kind == "allocator":
            raise RuntimeError(
                "[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory: 8 bytes"
            )


class Fills(pl.Callback):
    """Fills a disk before the first step."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def setup(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        if trainer.is_global_zero and not (self.folder / "filler").exists():
            fill(self.folder)


class Keeps(pl.Callback):
    """Takes whatever options it is given, as a user's own callback may."""

    def __init__(self, **options: Any) -> None:
        self.options = options
