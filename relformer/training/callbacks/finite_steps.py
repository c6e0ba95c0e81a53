"""Steps whose loss or gradient is not finite are left out, and a run of nothing else ends.

A loss that is no finite number makes its gradient none, and gradients are averaged over ranks: so one look at all
gradients tells every rank the same. Without this, one bad batch leaves weights of NaN for good, gradient
clipping or not (measured with Lightning 2.6.6), and the run ends as if nothing had happened.
"""

from __future__ import annotations

import json
import logging
import math
from itertools import chain
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
import torch.distributed as dist
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.strategies import DDPStrategy
from torch import Tensor
from torch.optim import Optimizer

from relformer.data.batching import FILLER, Batch
from relformer.errors import OptionError, RunError
from relformer.training.disk import spared
from relformer.training.sharding import local

logger = logging.getLogger("relformer")
SAID = 12
"""Pairs of a rank that the message lists; the file has all of them."""


class FiniteSteps(pl.Callback):
    """Looks at each gradient before it is clipped and used. Runs on every rank.

    A skipped step counts as a step: its batch is used up and the learning rate moves on, but no weight and no state of
    the optimizer changes. So a resumed run skips the same ones. With ``precision=16-mixed`` the gradient scaler skips
    by itself while it looks for a scale, which is no fault; only where the loss itself is not finite, or the scale has
    come down to 1, does the step count here.

    Args:
        path: a line of JSON a skipped step: the step, the loss and the rows of `train` on each rank.
        stop_after: skipped steps in a row that end the run, with exit code 1.
    """

    def __init__(self, path: str, stop_after: int = 5) -> None:
        if type(stop_after) is not int or stop_after < 1:
            raise OptionError(
                "stop_after", stop_after, "must be an integer of at least 1: it counts steps", "callbacks.finite_steps"
            )
        self.path, self.stop_after = Path(path), stop_after
        self.skipped, self.in_row = 0, 0
        self.batches: list[tuple[int, Tensor]] = []
        """Number and rows of each batch of the step being made."""
        self.losses: list[Tensor] = []

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        self.forget()
        kinds: dict[Any, list[Tensor]] = {}
        for group in trainer.optimizers[0].param_groups:
            for parameter in group["params"]:
                kinds.setdefault((parameter.device, parameter.dtype), []).append(parameter)
        self.kinds = list(kinds.values())

    def on_train_batch_start(self, trainer: Trainer, module: LightningModule, batch: Batch, index: int) -> None:
        self.batches.append((index, batch.index))

    def on_before_backward(self, trainer: Trainer, module: LightningModule, loss: Tensor) -> None:
        value = loss.detach()
        self.losses.append(value)
        if loss.requires_grad:
            loss.register_hook(lambda gradient: gradient + 0 * value)  # 0 * inf is NaN, and 0 * a number nothing

    def on_before_optimizer_step(self, trainer: Trainer, module: LightningModule, optimizer: Optimizer) -> None:
        found = not_finite(self.kinds)
        if trainer.world_size > 1 and not isinstance(trainer.strategy, DDPStrategy):
            found = trainer.strategy.reduce(found, reduce_op="sum")  # type: ignore[assignment]  # of sharded gradients
        if float(found):
            self.skip(trainer)
        else:
            self.in_row = 0
        self.forget()

    def skip(self, trainer: Trainer) -> None:
        losses = [float(loss) for loss in self.losses]
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        if scaler is None:
            for parameter in chain(*self.kinds):
                parameter.grad = None  # optimizers leave out what has none; clipping finds nothing either
        batches = [number for number, _ in self.batches]
        rows = [row for _, index in self.batches for row in index.tolist() if row != FILLER]
        own = {"rank": trainer.global_rank, "batches": batches, "loss": losses, "rows": rows}
        ranks: list[Any] = [own]
        if trainer.world_size > 1:
            ranks = [None] * trainer.world_size
            dist.all_gather_object(ranks, own)
        finite = all(math.isfinite(loss) for each in ranks for loss in each["loss"])
        if scaler is not None and finite and scaler.get_scale() > 1:
            return  # the scaler skips, and halves the scale
        self.skipped += 1
        self.in_row += 1
        what = "gradient" if finite else "loss"
        if trainer.is_global_zero:
            self.tell(trainer, what, ranks)
        if self.in_row == self.stop_after:
            raise RunError(self.verdict(trainer, what) if trainer.is_global_zero else "")

    def tell(self, trainer: Trainer, what: str, ranks: list[dict[str, Any]]) -> None:
        step = trainer.global_step + 1
        where = "; ".join(named(each, alone=len(ranks) == 1) for each in ranks)
        logger.warning(
            "step %d is skipped, its %s is not finite; the weights stay as they are (%d skipped so far)\n  train, %s",
            *(step, what, self.skipped, where),
        )
        record = {"step": step, "not_finite": what, "ranks": ranks}
        with spared(str(self.path)), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        for each in trainer.loggers:
            each.log_metrics({"train/skipped_steps": self.skipped}, step=trainer.global_step)

    def verdict(self, trainer: Trainer, what: str) -> str:
        last = trainer.global_step + 1
        steps = f"step {last}" if self.in_row == 1 else f"steps {last - self.in_row + 1} to {last}"
        return (
            f"training stops: the {what} of {steps} was not finite (callbacks.finite_steps.stop_after="
            f"{self.stop_after}). Their pairs are listed in {self.path}; the weights are still those of step "
            f"{last - self.in_row}. Lower optimizer.lr, set trainer.gradient_clip_val=1, take a longer "
            "scheduler.warmup_steps or another trainer.precision, or take the pairs out"
        )

    def forget(self) -> None:
        self.batches, self.losses = [], []

    def state_dict(self) -> dict[str, Any]:
        return {"skipped": self.skipped, "in_row": self.in_row}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.skipped, self.in_row = state_dict["skipped"], state_dict["in_row"]


def not_finite(kinds: list[list[Any]]) -> Tensor:
    """One where the gradient of any of these parameters, by device and type, has an element that is NaN or infinite,
    else zero. The look of torch's own gradient scaler, at half the price of a norm; gradients stay as they are."""
    found = torch.zeros((), device=kinds[0][0].device)
    for parameters in kinds:
        gradients = [local(gradient) for parameter in parameters if (gradient := parameter.grad) is not None]
        if gradients:
            here = torch.zeros((), device=gradients[0].device)
            torch._amp_foreach_non_finite_check_and_unscale_(gradients, here, torch.ones_like(here))
            found += here.to(found.device)
    return found


def named(each: dict[str, Any], alone: bool) -> str:
    """``rank 1: batch 40 (loss nan), pairs 3, 17, 5 and 61 more``."""
    rank = "" if alone else f"rank {each['rank']}: "
    batches = ", ".join(
        f"{number} (loss {loss:.4g})" for number, loss in zip(each["batches"], each["loss"], strict=True)
    )
    rows = each["rows"]
    more = f" and {len(rows) - SAID} more" if len(rows) > SAID else ""
    word = "batch" if len(each["batches"]) == 1 else "batches"
    return f"{rank}{word} {batches}, pairs {', '.join(map(str, rows[:SAID]))}{more}"
