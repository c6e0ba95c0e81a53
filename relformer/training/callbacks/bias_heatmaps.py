"""Attention-bias heatmaps of every table encoding: at the start, every n steps and at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.loggers import TensorBoardLogger, WandbLogger
from numpy.typing import NDArray

from relformer.errors import OptionError
from relformer.figures.heatmap import caption, draw_heatmap, heatmap_grid, save_png, toeplitz_maps
from relformer.files import replacing
from relformer.model.slot import Slot
from relformer.training.module import Seq2SeqModule

LEAST_LIMIT = 4.0


class BiasHeatmaps(pl.Callback):
    """One image a stack: a row a layer that has a table of its own, a column a head, query positions down, key
    positions across. The bias follows from parameters, equal on all ranks, so rank zero draws alone.

    Args:
        directory: for `<stack>_step<n>.png`, the numbers as `.npz`, and a labelled `<stack>.png` at the end.
        every_n_steps: optimizer steps between images.
        length: positions on each side of a map.
        limit: end of the colour scale in nats, fixed for the run; None takes the largest value at the start, at least
        4.
    """

    def __init__(self, directory: str, every_n_steps: int = 500, length: int = 32, limit: float | None = None) -> None:
        self.directory, self.every_n_steps, self.length, self.limit = Path(directory), every_n_steps, length, limit
        self.drawn = -1
        if every_n_steps < 1 or length < 1:
            raise OptionError("every_n_steps", every_n_steps, "or length is below 1", "callbacks.bias_heatmaps")

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        assert isinstance(module, Seq2SeqModule)
        limits = [limit for slot in module.model.slots.values() for e in slot if (limit := e.max_positions())]
        self.length = min(self.length, *limits) if limits else self.length
        self.draw(trainer, module)

    def on_train_batch_end(self, trainer: Trainer, module: LightningModule, *_: object) -> None:
        if trainer.global_step % self.every_n_steps == 0:
            self.draw(trainer, module)

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        self.draw(trainer, module)
        if trainer.is_global_zero:
            for stack, maps in self.maps(module).items():
                title = f"bias of the {stack} stack, step {trainer.global_step}"
                save_png(draw_heatmap(maps, self.limit or LEAST_LIMIT, title), self.directory / f"{stack}.png")

    def state_dict(self) -> dict[str, Any]:
        return {"limit": self.limit}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.limit = state_dict["limit"]

    def draw(self, trainer: Trainer, module: LightningModule) -> None:
        step = trainer.global_step
        if not trainer.is_global_zero or step == self.drawn:
            return
        self.drawn = step
        tables = self.tables(module)
        if not tables:
            return
        if self.limit is None:
            self.limit = max(LEAST_LIMIT, *(float(np.abs(table).max()) for table in tables.values()))
        images = {}
        for stack, maps in self.maps(module).items():
            grid, text = heatmap_grid(maps, self.limit), caption(maps, self.limit, step)
            images[stack] = (grid, text)
            path = self.directory / f"{stack}_step{step:06d}.png"
            save_png(grid, path)
            with replacing(path.with_suffix(".npz")) as temporary:
                np.savez_compressed(temporary, distance=self.distance().numpy(), table=tables[stack])
        self.publish(trainer, images, step)

    def publish(self, trainer: Trainer, images: dict[str, tuple[NDArray[np.uint8], str]], step: int) -> None:
        for logger in trainer.loggers:
            if isinstance(logger, WandbLogger):
                import wandb

                pictures = {f"bias/{stack}": wandb.Image(grid, caption=text) for stack, (grid, text) in images.items()}
                logger.experiment.log({**pictures, "trainer/global_step": step})
            elif isinstance(logger, TensorBoardLogger):
                for stack, (grid, _) in images.items():
                    logger.experiment.add_image(f"bias/{stack}", grid, step, dataformats="HWC")

    def distance(self) -> torch.Tensor:
        return torch.arange(-(self.length - 1), self.length)

    def tables(self, module: LightningModule) -> dict[str, NDArray[np.float32]]:
        """(layers with a table of their own, heads, 2 length - 1) by stack, in nats."""
        assert isinstance(module, Seq2SeqModule)
        found = {stack: self.stack_tables(slot, module.device) for stack, slot in module.model.slots.items()}
        return {stack: np.stack(tables) for stack, tables in found.items() if tables}

    @torch.no_grad()
    def stack_tables(self, slot: Slot, device: torch.device) -> list[NDArray[np.float32]]:
        tables = [e.table(self.distance().to(device)) for e in slot if e.acts("table")]
        return [table.float().cpu().numpy() for table in tables if table is not None]

    def maps(self, module: LightningModule) -> dict[str, NDArray[np.floating]]:
        return {
            stack: np.stack([toeplitz_maps(table, causal=stack == "decoder") for table in tables])
            for stack, tables in self.tables(module).items()
        }
