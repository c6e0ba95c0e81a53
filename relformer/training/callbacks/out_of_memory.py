"""Out of memory in a step: what was in the batch, how full the device is, and what to change."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch import LightningModule, Trainer

from relformer.data.batching import Batch
from relformer.errors import RunError

GIB = 2**30
ALLOCATOR = ("DefaultCPUAllocator: can't allocate memory", "not enough memory: you tried to allocate")
"""What torch's allocator for the CPU says in a plain RuntimeError."""


class OutOfMemory(pl.Callback):
    """Keeps hold of the batch at work. Where memory ends, what to change is added to the exception as a note.

    The step is not half done: memory ends in the forward or backward pass, or where an optimizer makes its state, and
    all of that is before the first weight changes.
    """

    def __init__(self) -> None:
        self.work: tuple[str, int, Batch] | None = None

    def on_train_batch_start(self, trainer: Trainer, module: LightningModule, batch: Batch, index: int) -> None:
        self.work = "training", index, batch

    def on_validation_batch_start(
        self, trainer: Trainer, module: LightningModule, batch: Batch, index: int, loader: int = 0
    ) -> None:
        self.work = "validation", index, batch

    def on_test_batch_start(
        self, trainer: Trainer, module: LightningModule, batch: Batch, index: int, loader: int = 0
    ) -> None:
        self.work = "testing", index, batch

    def on_exception(self, trainer: Trainer, module: LightningModule, exception: BaseException) -> None:
        if is_out_of_memory(exception):
            exception.add_note(self.message(trainer, module, exception))

    def message(self, trainer: Trainer, module: LightningModule, exception: BaseException) -> str:
        said = " ".join(str(exception).split("\n")[0].split()) or type(exception).__name__
        options: dict[str, Any] = getattr(module, "config", {}).get("data", {})
        place = (
            f"step {trainer.global_step + 1}"
            if self.work is None
            else f"step {trainer.global_step + 1}, {self.work[0]}"
        )
        rank = f", rank {trainer.global_rank}" if trainer.world_size > 1 else ""
        lines = [f"out of memory in {place}{rank}: {said}"]
        if self.work is not None:
            lines.append(f"  batch {self.work[1]}: {contents(self.work[2])}")
        lines.append(f"  memory: {memory_of(module.device)}")
        lines += [f"  {each}" for each in advice(options, self.work[0] if self.work else "training", trainer)]
        return "\n".join(lines)


@contextmanager
def memory_explained() -> Iterator[None]:
    """Turn an exhausted memory, once `OutOfMemory` has explained it, into the one message that ends the run."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise RunError("\n".join(getattr(error, "__notes__", [])) or f"out of memory: {error}") from None


def is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(said in str(error) for said in ALLOCATOR)


def contents(batch: Batch) -> str:
    """Of one rank's batch: pairs, longest sides, and positions with padding."""
    pairs, source, target = len(batch.source), batch.source.shape[1], batch.target.shape[1]
    positions = pairs * (source + target)
    return (
        f"{pairs:,} pairs on this device, the longest source {source:,} and target {target:,} tokens, {positions:,} "
        "positions with padding"
    )


def memory_of(device: torch.device) -> str:
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        used, most = torch.cuda.memory_allocated(device), torch.cuda.max_memory_allocated(device)
        return (
            f"{device} has {total / GIB:.1f} GiB, {free / GIB:.1f} free; torch holds {used / GIB:.1f} now and held "
            f"{most / GIB:.1f} at most"
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return f"this process took {peak:.1f} GiB of main memory at most"


def advice(options: dict[str, Any], stage: str, trainer: Trainer) -> list[str]:
    """What to change, the mildest first."""
    if stage != "training":
        return [f"lower data.eval_batch_size={options.get('eval_batch_size')}: the figures stay the same"]
    accumulate = trainer.accumulate_grad_batches
    budget, size = options.get("max_tokens"), options.get("batch_size")
    name, value = ("max_tokens", budget) if budget else ("batch_size", size)
    found = [
        f"lower data.{name}={value} and raise trainer.accumulate_grad_batches={accumulate} by as much: training stays "
        "the same, but for rounding"
        if isinstance(value, int)
        else "lower data.batch_size"
    ]
    if not budget:
        found.append("or set data.max_tokens, so that long pairs come in small batches")
    if "mixed" not in str(trainer.precision):
        found.append("or set trainer.precision=bf16-mixed, which halves what is kept for the backward pass")
    return [*found, "or leave out the longest pairs: data.max_length (of text), or the length options of the task"]
