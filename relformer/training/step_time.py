"""How many times as long a training step takes as it would without positions: what `match=time` goes by.

Both models take turns on the run's first batches, on its device and with as many threads: forward, backward, optimizer.
It is measured once. All runs that differ in the seed or the learning rate alone share it (`<log_dir>/matched_time/`),
and each keeps it beside its checkpoints, so that it goes on with the number it began with, wherever that is.
"""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from lightning.fabric import Fabric
from omegaconf import DictConfig, ListConfig

from relformer.config import SLOTS
from relformer.data.batching import Batch
from relformer.data.encoded import Corpus
from relformer.data.planning import Share
from relformer.data.text.cache import key_of
from relformer.errors import UserError
from relformer.files import write_json
from relformer.training.matching import training_batches
from relformer.training.module import Seq2SeqModule
from relformer.training.resume import run_parts, where_to_start
from relformer.training.run import module_config
from relformer.training.threads import share_cores

BATCHES = 4
"""Batches of a turn, at least: their shapes differ."""
SECONDS = 4.0
"""About how long to measure."""
ROUNDS = (7, 99)
"""The fewest and the most rounds."""
FILE = "matched_time.json"
SAME_COST = ("seed", "scheduler", "eval", "decoding")
"""Parts of a run that a training step costs the same without, as it does with another `optimizer.lr`."""


@dataclass(frozen=True)
class StepTime:
    """Seconds a step, as it is and without positions: medians. `ratio`, `low` and `high` are median and quartiles over
    rounds of the one divided by the other."""

    seconds: float
    seconds_without: float
    ratio: float
    low: float
    high: float
    rounds: int
    machine: dict[str, Any]
    torch: str

    def __str__(self) -> str:
        threads = self.machine.get("threads")
        where = str(self.machine["device"]) + (f", {threads} thread{'s' * (threads > 1)}" if threads else "")
        return (
            f"{1000 * self.seconds:.4g} ms a step, {self.ratio:.3f} times as long as without positions "
            f"({1000 * self.seconds_without:.4g} ms; quartiles {self.low:.3f} to {self.high:.3f}; {self.rounds} rounds "
            f"in turn; {where})"
        )


def step_time(config: DictConfig, corpus: Corpus) -> tuple[StepTime, str]:
    """What was measured for the run that is continued, else for runs like this one, else what is measured now; and
    where that stands.

    Raises:
        UserError: it would be measured by several processes at once, or can't be kept.
    """
    share_cores(devices_of(config, device_of(config)), config.hardware.threads)  # as the run does
    if (path := own_record(config)) is not None:
        return read(path), f"as measured before: {path}"
    path = shared_record(config)
    if path.exists():
        return read(path), f"as measured before: {path}"
    if max(int(os.environ.get(name, "1")) for name in ("WORLD_SIZE", "SLURM_NTASKS")) > 1:
        raise UserError(
            f"match=time measures in one process, and {path} is not there; start the run once without torchrun or "
            "srun: what it measures is kept there"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):
            if not path.exists():  # another job of the sweep may have measured meanwhile
                write_json(path, asdict(measured(config, corpus)))
    except OSError as error:
        raise UserError(f"{path} can't be written: {error.strerror}; set paths.log_dir") from None
    return read(path), f"kept in {path}"


def keep_with_run(config: DictConfig) -> None:
    """Leave in the run directory what the run was matched by; the first rank does, once the directory is there."""
    place = Path(config.hydra.run.dir) / FILE
    found = own_record(config) or shared_record(config)
    if found != place and found.exists():
        write_json(place, asdict(read(found)))


def own_record(config: DictConfig) -> Path | None:
    """The file beside the checkpoint to continue from, if there is one."""
    checkpoint = where_to_start(config.resume, Path(config.hydra.run.dir)).checkpoint
    path = None if checkpoint is None else checkpoint.parent.parent / FILE
    return path if path is not None and path.exists() else None


def shared_record(config: DictConfig) -> Path:
    """The file of all runs whose steps cost the same on this kind of machine."""
    parts = {key: part for key, part in run_parts(config).items() if key not in SAME_COST}
    parts["optimizer"] = {key: value for key, value in parts["optimizer"].items() if key != "lr"}
    device = device_of(config)
    hardware = config.hardware
    place = [
        hardware.compile,
        hardware.activation_checkpointing,
        ranks(config, device),
        machine(device),
        torch.__version__,
    ]
    return Path(config.paths.log_dir) / "matched_time" / f"{key_of(parts, place)}.json"


def read(path: Path) -> StepTime:
    """Raises UserError where the file is not what `step_time` writes."""
    try:
        return StepTime(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise UserError(f"{path} is not a measured step ({error}); delete it, to have it measured anew") from None


def machine(device: torch.device) -> dict[str, Any]:
    """The kind of machine, not its name: nodes of one kind share a number."""
    if device.type == "cuda":
        return {"device": torch.cuda.get_device_name(device)}
    try:
        model = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        model = None
    processor = model[1] if model else platform.processor() or platform.machine()
    return {"device": processor if device.type == "cpu" else device.type, "threads": torch.get_num_threads()}


def device_of(config: DictConfig) -> torch.device:
    return Fabric(accelerator=config.trainer.accelerator, devices=1).device


def ranks(config: DictConfig, device: torch.device) -> int:
    """The devices that share a batch."""
    return int(config.trainer.num_nodes) * devices_of(config, device)


def devices_of(config: DictConfig, device: torch.device) -> int:
    """Those of one machine."""
    devices = config.trainer.devices
    if devices == "auto":
        return torch.cuda.device_count() if device.type == "cuda" else 1
    return len(devices) if isinstance(devices, ListConfig) else int(devices)


def measured(config: DictConfig, corpus: Corpus) -> StepTime:
    """Both models in turns; one device's share of the batches, whatever the number of devices."""
    from relformer.benchmark.interleaved import ratio, taking_turns

    fabric = Fabric(accelerator=config.trainer.accelerator, devices=1, precision=config.trainer.precision)
    share = Share(0, ranks(config, fabric.device), config.trainer.accumulate_grad_batches)
    steps = -(-BATCHES // share.accumulate)
    batches = [fabric.to_device(each) for each in training_batches(config, corpus, share, steps * share.accumulate)]
    whole = module_config(config, corpus, config.trainer.max_steps)
    bare = {key: part for key, part in whole.items() if key not in SLOTS} | {"encoding": {"name": "none"}}
    with torch.random.fork_rng():
        turns = {name: turn(fabric, parts, batches, config) for name, parts in (("ours", whole), ("without", bare))}
        times = taking_turns(turns, rounds(turns), fabric.device)
    seconds, without = (statistics.median(times[name]) / steps for name in turns)
    spread, at = ratio(times, "ours", "without"), machine(fabric.device)
    return StepTime(seconds, without, spread.median, spread.low, spread.high, len(times["ours"]), at, torch.__version__)


def turn(fabric: Fabric, parts: dict[str, Any], batches: list[Batch], config: DictConfig) -> Callable[[], None]:
    """Training on all the batches once, as the Trainer does it but for its callbacks."""
    made, accumulate, clip = (
        Seq2SeqModule(parts),
        config.trainer.accumulate_grad_batches,
        config.trainer.gradient_clip_val,
    )
    if config.hardware.compile:
        made.model.compile_training()
    if config.hardware.activation_checkpointing:
        made.model.checkpoint_training()
    module, optimizer = fabric.setup(made.train(), made.build_optimizer())

    def run() -> None:
        for number, batch in enumerate(batches, 1):
            fabric.backward(module.training_step(batch, number) / accumulate)
            if number % accumulate == 0:
                if clip:
                    fabric.clip_gradients(module, optimizer, max_norm=clip)
                optimizer.step()
                optimizer.zero_grad()

    return run


def rounds(turns: Mapping[str, Callable[[], None]]) -> int:
    """So many that they take about `SECONDS`, by the second turn of each; the first makes what is made once."""
    for run in turns.values():
        run()
    start = time.perf_counter()
    for run in turns.values():
        run()
    fewest, most = ROUNDS
    return min(max(fewest, round(SECONDS / (time.perf_counter() - start))), most)
