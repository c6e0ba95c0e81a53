"""A sweep's jobs, each an ordinary process: no state of one job can leak into the next, and one that fails stops no
other.

Measured without this, at two devices: Optuna gave each rank its own hyper-parameters, silently; jobs shared one W&B
run; one failing job killed the sweep.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from relformer.errors import RunError
from relformer.evaluation.compare import compare_runs
from relformer.evaluation.groups import runs_below
from relformer.files import write_text
from relformer.processes import LAUNCHER
from relformer.training.resume import run_parts
from relformer.training.signals import ENDING, Interrupted

RANK_VARIABLES = ("LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "RANK", "PL_GLOBAL_SEED")
IN_JOB = "RELFORMER_SWEEP_JOB"


FINISHED = "run_key"
"""Written beside a job's `metrics.json`: which run it is."""

_jobs: list[Path] = []
"""The directories of this process's jobs, in order."""


def run_key(*, _root_: DictConfig) -> str:
    """Eight digits that are equal for equal runs, for the name of a job's directory: what a run is and how long."""
    config, trainer = _root_, _root_.trainer
    parts = {**run_parts(config), "steps": trainer.max_steps, "epochs": trainer.max_epochs}
    parts["match"] = config.match
    parts["tuned_on_test"] = config.sweep.objective.startswith("test")
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:8]


def forget_jobs() -> None:
    """The jobs so far chose something for those that follow, which alone are compared."""
    _jobs.clear()


def run_job(flags: list[str], config: DictConfig) -> float:
    """Run the current job of a sweep as a child, unless its directory holds the finished run, and return the objective.

    Raises:
        RunError: the child failed, and has said why; Hydra goes on with the other jobs.
    """
    job = HydraConfig.get()
    directory = job.runtime.output_dir
    key, done = run_key(_root_=config), Path(directory) / FINISHED
    _jobs.append(Path(directory))
    if done.exists() and done.read_text(encoding="utf-8").strip() == key:
        print(f"finished before: {directory}")
        return objective(Path(directory), config.sweep.objective)
    command = [
        sys.executable,
        *(["-m", "relformer"] if sys.argv[0].endswith("__main__.py") else [sys.argv[0]]),
        *flags,
        *job.overrides.task,
        f'hydra.run.dir="{directory}"',
        "hydra.mode=RUN",
    ]
    environment = {key: value for key, value in os.environ.items() if key not in RANK_VARIABLES}
    code = run_forwarding_signals(command, environment | {IN_JOB: "1", LAUNCHER: str(os.getpid())})
    if code:
        how = f"ended with exit code {code}" if code > 0 else f"was killed by {signal.Signals(-code).name}"
        raise RunError(f"sweep job {job.job.num} {how}; see {directory}")
    write_text(done, f"{key}\n")
    return objective(Path(directory), config.sweep.objective)


def objective(run: Path, name: str) -> float:
    """A figure of a finished run, `val/iid/loss` and the like, of the checkpoint that it reports."""
    metrics: dict[str, Any] = json.loads((run / "metrics.json").read_text(encoding="utf-8"))
    kind, part, figure = name.split("/")
    return float(metrics["checkpoints"][metrics["checkpoint"]][f"{kind}_{part}"][figure])


def run_forwarding_signals(command: list[str], environment: dict[str, str]) -> int:
    """The exit code of a child that ends with us: what would stop the sweep stops the job and its ranks first, which
    saves."""
    child = subprocess.Popen(command, env=environment, start_new_session=True)

    def forward(number: int, frame: FrameType | None) -> None:
        os.killpg(child.pid, number)
        child.wait()
        raise Interrupted(number)

    if threading.current_thread() is not threading.main_thread():
        return child.wait()  # a launcher with threads of its own; signals reach the main thread only
    previous = {
        number: signal.signal(number, forward) for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        return child.wait()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def summarise_sweep(directory: Path) -> None:
    """At the end of a sweep, failed jobs or not: its finished runs side by side, grouped over seeds.

    They are those of this process; where a launcher ran them in others, all that the directory holds.
    """
    places = [job for job in _jobs if (job / "metrics.json").exists()] or [directory]
    if any(map(runs_below, places)):
        compare_runs(map(str, places))
        print(f"again: relformer compare {directory}")
