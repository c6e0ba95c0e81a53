"""A run of a second that has all that a resume could get wrong, and what two runs must agree on to the last bit."""

import csv
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from tests.cli.runs import WITHOUT_FIGURES

TINY = (
    "data=reverse",
    "data.examples=200",
    "data.examples_per_length=4",
    "data.batch_size=20",
    "model.width=16",
    "model.heads=2",
    "model.encoder_layers=1",
    "model.decoder_layers=1",
    "model.dropout=0.1",
    "optimizer.lr=0.01",
    "scheduler=cosine",
    "scheduler.warmup_steps=4",
    "trainer.accelerator=cpu",
    "trainer.max_steps=24",
    "trainer.log_every_n_steps=1",
    "eval.every=4",
    "eval.generate=false",
    "logger=csv",
    "callbacks.last_checkpoint.every_n_train_steps=3",
    *WITHOUT_FIGURES,
)
"""An epoch of 10 steps, a checkpoint every 3 and before each validation, which is every 4."""
VARIANTS = {
    "plain": (),
    "accumulated": ("trainer.accumulate_grad_batches=2",),
    "ema": ("callbacks=ema", "callbacks.ema.decay=0.8"),
    "early_stopping": (
        "callbacks=early_stopping",
        "callbacks.early_stopping.min_delta=0.4",
        "callbacks.early_stopping.patience=2",
    ),
    "averaging": ("callbacks=averaging", "callbacks.recent_checkpoints.every_n_train_steps=4"),
    "tokens": ("data.max_tokens=120", "data.batch_size=null"),
}


def rows(run: Path) -> dict[tuple[int, str], str]:
    """Every figure of every step as it is written, the shortest digits that make the same float; of what was done twice
    the last. Without seconds and what is counted by them."""
    with (run / "csv" / "metrics.csv").open(newline="") as file:
        return {
            (int(row["step"]), name): value
            for row in csv.DictReader(file)
            for name, value in row.items()
            if value and name != "step" and not name.startswith("throughput/")
        }


UNCOUNTED = re.compile(
    r"/Throughput/|val_loop|validate_loop|/completed$|^/epoch$|epoch_progress|_batches_that_stepped$"
)
"""Of a checkpoint's keys: the seconds that a step took; batches validated, and counts that a validation made after a
restart leaves one behind; the trainer's epoch, of which a run has one, over only where the process has reached the end
of it; its count of rows, which the module sets before each batch."""


def state(path: Path) -> dict[str, Any]:
    """What a checkpoint holds: weights, optimizer, schedule, batches done, callbacks."""
    content, here = flat(torch.load(path, map_location="cpu", weights_only=True)), f"{path.parent}"
    return {
        key.replace(here, ""): value.replace(here, "") if isinstance(value, str) else value
        for key, value in content
        if not UNCOUNTED.search(key)
    }


def flat(node: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(node, Mapping | list | tuple):
        pairs = node.items() if isinstance(node, Mapping) else enumerate(node)
        for key, value in pairs:
            yield from flat(value, f"{prefix}/{key}")
    else:
        yield prefix, node.view(torch.uint8) if isinstance(node, torch.Tensor) and node.dim() else node


def unequal(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> list[Any]:
    """The keys under which two mappings differ, tensors compared bit by bit."""

    def same(a: Any, b: Any) -> bool:
        return torch.equal(a, b) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else bool(a == b)

    return [key for key in {**one, **other} if key not in one or key not in other or not same(one[key], other[key])]
