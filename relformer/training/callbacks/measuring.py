"""What callbacks that look inside the model share: when they do, one measurement a step, its cost, and the loggers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import lightning.pytorch as pl
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.loggers import TensorBoardLogger, WandbLogger
from matplotlib.image import imread

from relformer.analysis.measurement import Measurement, Measurer
from relformer.errors import OptionError
from relformer.training.disk import spared
from relformer.training.module import Seq2SeqModule
from relformer.training.sharding import whole

SPENT: WeakKeyDictionary[LightningModule, float] = WeakKeyDictionary()
"""Seconds that looking took of a module's training, all callbacks together."""


@contextmanager
def timed(module: LightningModule) -> Iterator[None]:
    """Add what happens within to `SPENT`."""
    began = time.perf_counter()
    yield
    SPENT[module] = SPENT.get(module, 0.0) + time.perf_counter() - began


class Measuring(pl.Callback):
    """Draws at the start of training, every n optimizer steps and at its end, on rank zero alone: what is measured
    follows from parameters, which are equal on all ranks, and reaches no collective."""

    name: ClassVar[str]
    """Of the callback in the config."""
    measurers: ClassVar[WeakKeyDictionary[LightningModule, Measurer]] = WeakKeyDictionary()
    latest: ClassVar[WeakKeyDictionary[LightningModule, tuple[int, Measurement]]] = WeakKeyDictionary()

    def __init__(self, every_n_steps: int) -> None:
        if every_n_steps < 1:
            raise OptionError("every_n_steps", every_n_steps, "must be at least 1", f"callbacks.{self.name}")
        self.every_n_steps, self.drawn = every_n_steps, -1

    def draw(self, trainer: Trainer, module: Seq2SeqModule) -> None:
        """Measure, write and publish."""
        raise NotImplementedError

    def finish(self, trainer: Trainer, module: Seq2SeqModule) -> None:
        """What is drawn once, after training."""

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        self.draw_once(trainer, module)

    def on_train_batch_end(self, trainer: Trainer, module: LightningModule, *_: object) -> None:
        if trainer.global_step % self.every_n_steps == 0:
            self.draw_once(trainer, module)

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        self.draw_once(trainer, module)
        self.alone(trainer, module, self.finish)

    def draw_once(self, trainer: Trainer, module: LightningModule) -> None:
        if trainer.global_step != self.drawn:
            self.drawn = trainer.global_step
            self.alone(trainer, module, self.draw)

    def alone(self, trainer: Trainer, module: LightningModule, look: Callable[[Trainer, Seq2SeqModule], None]) -> None:
        """On rank zero, while all ranks have gathered the weights for it."""
        assert isinstance(module, Seq2SeqModule)
        with timed(module), whole(module):
            if trainer.is_global_zero:
                with spared(f"callbacks.{self.name}"):
                    look(trainer, module)

    def measured(self, trainer: Trainer, module: Seq2SeqModule) -> Measurement:
        """This step's measurement, made for whoever asks first."""
        if module not in self.measurers:
            data = trainer.datamodule  # type: ignore[attr-defined]
            self.measurers[module] = Measurer(module.model, data.corpus, data.options.frame)
        step, found = self.latest.get(module, (-1, None))
        if found is None or step != trainer.global_step:
            found = self.measurers[module].measure(module.model)
            self.latest[module] = trainer.global_step, found
        return found


Picture = tuple[Path, str]
"""A PNG file and its caption, which says the step: W&B's image slider counts log calls."""


def publish(trainer: Trainer, pictures: Mapping[str, Picture], numbers: Mapping[str, float] = {}) -> None:
    """To W&B, in one row at `trainer/global_step`, and to TensorBoard. Keys are folders: `bias/encoder`."""
    step = trainer.global_step
    for logger in trainer.loggers:
        if isinstance(logger, WandbLogger):
            import wandb

            images: dict[str, Any] = {
                key: wandb.Image(str(path), caption=text) for key, (path, text) in pictures.items()
            }
            logger.log_metrics({**images, **numbers}, step)
        elif isinstance(logger, TensorBoardLogger):
            for key, (path, _) in pictures.items():
                logger.experiment.add_image(key, imread(path)[..., :3], step, dataformats="HWC")
            for key, value in numbers.items():
                logger.experiment.add_scalar(key, value, step)
