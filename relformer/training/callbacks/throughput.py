"""How fast training is: seconds a step, tokens a second, the share of time spent waiting for data, and of the devices'
peak what the model makes use of (MFU; Chowdhery et al. 2022, arXiv:2204.02311, appendix B).

Time is that of steps and of waiting for their batches; validation, checkpoints and figures lie between steps. A token
is one of the source or of the target, BOS and EOS counted, padding not.

    MFU = FLOPs a token * tokens per second and device / the device's peak in the precision of the products

FLOPs are those of matrix products, forward and backward, as torch counts them (`FlopCounterMode`), on the first batch:
one sentence of it and two, in the formula written out (`attention.backend=dense`, which torch counts whole, as it does
not every fused kernel), on a copy of the model on the CPU, so the rest follows from the number of sentences. What
activation checkpointing makes twice counts once. Padding is worked on, but is no token: it is counted in FLOPs, as part
of what a token costs. Peaks are those of Lightning's table; where it has none there is no MFU, and nothing is counted.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Mapping
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.fabric.utilities.throughput import get_available_flops
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor

from relformer.data.batching import Batch
from relformer.data.vocabulary import PAD
from relformer.model import build_model
from relformer.training.matching import flops

WARM_UP = 5
FIGURES = ("seconds_per_step", "tokens_per_second", "tokens_per_second_per_device", "data_wait", "mfu")


class Throughput(pl.Callback):
    """Logs `throughput/...` every `trainer.log_every_n_steps` steps; `figures` are of the whole training but its first
    steps.

    `seconds_per_step` is the median from the start of a step's first batch to the end of its last; the others are
    totals, over all ranks. Of a continued run, the figures of the stretch with the most steps. `cpu_seconds` are those
    of all threads of the first rank's process until the last step, from its start, with what lies between steps; of a
    continued run, those up to its checkpoint are added.
    """

    def __init__(self) -> None:
        self.times: list[float] = []
        self.earlier: dict[str, Any] = {"steps": 0}
        """Steps measured before this start, and their figures."""
        self.began: float | None = None
        self.tokens: Tensor | int = 0
        """Of this rank, since it was last read."""
        self.waited = 0.0
        """What the loader had waited when it was last read."""
        self.waited_before = self.within = 0.0
        """What it had waited at the start of the step, and within steps since it was last read: a step of several
        batches waits for all but the first, and its time holds that."""
        self.read = 0
        """Steps whose totals were read."""
        self.totals: dict[str, float] = {"tokens": 0.0, "seconds": 0.0, "waited": 0.0}
        self.cpu_before = self.cpu_seconds = 0.0
        self.devices = 1
        self.peak: float | None = None
        self.flops_per_token = 0.0

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        self.devices, self.peak = trainer.world_size, peak(module.device, str(trainer.precision))

    def on_train_batch_start(self, trainer: Trainer, module: LightningModule, batch: Batch, index: int) -> None:
        if self.peak is not None and not self.flops_per_token and trainer.is_global_zero:
            self.flops_per_token = flops_of(module, batch) / int(tokens_in(batch))
        if self.began is None:
            self.began, self.step = time.perf_counter(), trainer.global_step
            self.waited_before = waited(trainer)
        self.tokens = self.tokens + tokens_in(batch)

    def on_train_batch_end(self, trainer: Trainer, module: LightningModule, *_: object) -> None:
        if self.began is not None and trainer.global_step > self.step:
            self.times.append(time.perf_counter() - self.began)
            self.began = None
            self.within += waited(trainer) - self.waited_before
            self.cpu_seconds = self.cpu_before + time.process_time()
            if len(self.times) == WARM_UP:
                self.since_last(trainer)
            elif len(self.times) > WARM_UP and trainer.global_step % trainer.log_every_n_steps == 0:  # type: ignore[attr-defined]
                self.publish(trainer)

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        if len(self.times) > max(self.read, WARM_UP):
            self.publish(trainer)

    def publish(self, trainer: Trainer) -> None:
        recent = self.since_last(trainer)
        for key, value in recent.items():
            self.totals[key] += value
        found = {f"throughput/{key}": value for key, value in self.rates(recent).items() if value is not None}
        for each in trainer.loggers:
            each.log_metrics(found, step=trainer.global_step)

    def since_last(self, trainer: Trainer) -> dict[str, float]:
        """Tokens of all ranks, seconds, and of these the seconds waited, since this was last called: by all ranks."""
        since = waited(trainer) - self.waited
        counted = torch.as_tensor(self.tokens)
        if trainer.world_size > 1:
            counted = trainer.strategy.reduce(counted, reduce_op="sum")  # type: ignore[assignment]
        lasted, self.read = sum(self.times[self.read :]), len(self.times)
        found = {"tokens": float(counted), "seconds": lasted + since - self.within, "waited": since}
        self.tokens, self.within = 0, 0.0
        self.waited += since
        return found

    def rates(self, of: dict[str, float]) -> dict[str, float | None]:
        if not of["seconds"]:
            return {}
        speed = of["tokens"] / of["seconds"]
        used = None if self.peak is None else self.flops_per_token * speed / self.devices / self.peak
        return {
            "tokens_per_second": speed,
            "tokens_per_second_per_device": speed / self.devices,
            "data_wait": of["waited"] / of["seconds"],
            "mfu": used,
        }

    @property
    def figures(self) -> dict[str, float | None]:
        """`FIGURES`; None where a run is as short as the warm-up, or a device's peak is not known."""
        measured = self.times[WARM_UP:]
        if len(measured) <= self.earlier["steps"]:
            return {key: self.earlier.get(key) for key in FIGURES}
        found = {"seconds_per_step": statistics.median(measured), **self.rates(self.totals)}
        return {key: found.get(key) for key in FIGURES}

    def state_dict(self) -> dict[str, Any]:
        steps = max(self.earlier["steps"], len(self.times) - WARM_UP)
        return {"steps": steps, "cpu_seconds": self.cpu_seconds, **self.figures}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.earlier = state_dict
        self.cpu_before = self.cpu_seconds = state_dict.get("cpu_seconds", 0.0)


def waited(trainer: Trainer) -> float:
    """Seconds that training has waited for its batches so far."""
    return getattr(trainer.train_dataloader, "waited", 0.0)


def tokens_in(batch: Batch) -> Tensor:
    """A number on the batch's device, so that nothing waits for it."""
    return batch.source.ne(PAD).sum() + batch.labels.ne(PAD).sum()


def flops_of(module: Any, batch: Batch) -> float:
    """Of a training step on a batch."""
    config = module.config | {"attention": {"backend": "dense"}}
    model = build_model(config, len(module.source_vocabulary), len(module.target_vocabulary), PAD)
    one, two = (flops(model, [usual(batch, rows)]) for rows in (1, 2))
    return one + (len(batch.source) - 1) * (two - one)


def usual(batch: Batch, rows: int) -> Batch:
    """Copies of a batch's sentence with the most usual number of target tokens, padded as it is, on the CPU."""
    counts = batch.labels.ne(PAD).sum(-1).float()
    row = int((counts - counts.mean()).abs().argmin())

    def copies(each: Tensor) -> Tensor:
        return each[row].cpu().expand(rows, -1)

    positions = None if batch.positions is None else copies(batch.positions)
    index = batch.index[row].cpu().expand(rows)
    return Batch(index, copies(batch.source), copies(batch.target), copies(batch.labels), 1.0, positions)


def peak(device: torch.device, precision: str) -> float | None:
    """FLOPs a second of a device in the precision of the products, by Lightning's table; None where it has no entry."""
    kind = next((k for name, k in (("bf16", torch.bfloat16), ("16", torch.float16)) if name in precision), None)
    if kind is None and not precision.startswith("32"):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = get_available_flops(device, kind or torch.float32)
    return None if found is None else float(found)


def said_of_speed(figures: Mapping[str, float | None]) -> str:
    """The figures in a line; empty where nothing was measured."""
    forms = {
        "tokens_per_second": "{:,.0f} tokens/s",
        "tokens_per_second_per_device": "{:,.0f} per device",
        "seconds_per_step": "{:.4g} s a step",
        "data_wait": "{:.1%} of it waiting for data",
        "mfu": "{:.1%} MFU",
    }
    return ", ".join(forms[key].format(value) for key, value in figures.items() if value is not None)
