"""One job of a sweep: what it runs, where, and how it stands."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from relformer.errors import UserError
from relformer.fingerprint import digits_of
from relformer.training.resume import acting_callbacks, run_parts, step_limit

IN_JOB = "RELFORMER_SWEEP_JOB"
"""In the environment of a sweep's job."""
FINISHED = "run_key"
"""Written beside a job's `metrics.json`: which run it is."""
STOPPED = 128
"""Exit codes above it are of a process that a signal ended, and that had time to save."""


@dataclass
class Job:
    """`own` are the overrides that tell it from the others. `seconds`, `exit_code` (negative: the signal that killed
    it) and `started` (since the epoch) are of its last start; None before. `parameters` are what a search proposed,
    `log` holds what it printed where that is not here."""

    number: int
    overrides: list[str]
    own: list[str]
    directory: Path
    key: str
    objective: str
    max_steps: int | None = None
    nodes: int = 1
    devices: int | str = 1
    cpu: bool = False
    started: float | None = None
    seconds: float | None = None
    exit_code: int | None = None
    parameters: dict[str, Any] | None = None
    log: Path | None = None

    @property
    def finished(self) -> bool:
        """Whether its directory holds this very run, whole."""
        done = self.directory / FINISHED
        return done.exists() and done.read_text(encoding="utf-8").strip() == self.key

    @property
    def failed(self) -> bool:
        return bool(self.exit_code)

    def value(self) -> float | None:
        """The objective of a finished job."""
        return objective(self.directory, self.objective) if self.finished else None

    def state(self, sweep_runs: bool, run_lives: bool) -> str:
        """finished, running, failed, killed or waiting; given whether the sweep's process and the run's hold their
        locks."""
        if self.finished:
            return "finished"
        if run_lives or (sweep_runs and self.started is not None and self.exit_code is None):
            return "running"
        if self.started is None:
            return "waiting"
        return said_of(self.exit_code) if self.exit_code else "killed"

    def __str__(self) -> str:
        return " ".join(self.own) or self.directory.name


def said_of(code: int) -> str:
    """An exit code in words."""
    number = -code if code < 0 else code - STOPPED
    name = next((each.name for each in signal.Signals if each == number), None)
    if name is None:
        return f"failed ({code})"
    return f"killed ({name})"


def run_key(*, _root_: DictConfig) -> str:
    """Eight digits that are equal for equal runs, for the name of a job's directory: what a run is, what it starts
    from, and what may end it."""
    config = _root_
    parts = {**run_parts(config), **acting_callbacks(config)}
    parts |= {"steps": step_limit(config), "epochs": config.trainer.max_epochs}
    parts["match"] = config.match
    if config.init_from is not None:
        origin = config.init_from if config.init_from.startswith("hf:") else os.path.normpath(config.init_from)
        parts |= {"init_from": origin, "init_strict": config.init_strict}
    parts["tuned_on_test"] = config.sweep.objective.startswith("test")
    return digits_of(parts)


def objective(run: Path, name: str) -> float:
    """A figure of a finished run, `val/iid/loss` and the like, of the checkpoint that it reports."""
    metrics: dict[str, Any] = json.loads((run / "metrics.json").read_text(encoding="utf-8"))
    kind, part, figure = name.split("/")
    return float(metrics["checkpoints"][metrics["checkpoint"]][f"{kind}_{part}"][figure])


def stored(job: Job, home: Path) -> dict[str, Any]:
    """A job for the record of the sweep in `home`: its directory seen from there, so that the folder may move."""
    content = {key: value for key, value in vars(job).items() if key not in ("nodes", "devices", "cpu", "log")}
    return {**content, "directory": os.path.relpath(job.directory, home)}


def read_job(content: Mapping[str, Any], home: Path) -> Job:
    return Job(**{**content, "directory": Path(os.path.normpath(home / content["directory"]))})


def fault(job: Job) -> str:
    """What is to be said of a job that failed."""
    code = job.exit_code or 0
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    return f"sweep job {job.number} {how}; see {job.log or job.directory}"


def success(job: Job) -> str:
    """What is to be said of a job that finished, where it has not said so here itself."""
    return f"job {job.number}   finished in {job.seconds:.0f} s"


def now() -> float:
    return round(time.time(), 1)


def refuse_alone(config: DictConfig) -> None:
    """Raises UserError where options of a sweep are set without one."""
    if IN_JOB in os.environ:
        return
    for name, remedy in (
        ("learning_rates", "-m"),
        ("runs", "sweep=list"),
        ("n", "sweep=seeds"),
        ("trials", "sweep=optuna"),
    ):
        if config.sweep.get(name) is not None:
            raise UserError(f"sweep.{name} is for a sweep: add {remedy}, or leave it out (sweep.{name}=null)")
