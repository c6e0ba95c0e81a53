"""A sweep's jobs, each an ordinary process: no state of one job can leak into the next, and one that fails stops no
other.

Measured without this, at two devices: Optuna gave each rank its own hyper-parameters, silently; jobs shared one W&B
run; one failing job killed the sweep.
"""

from __future__ import annotations

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

from relformer.errors import UserError
from relformer.evaluation.compare import compare_runs

RANK_VARIABLES = ("LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "RANK", "PL_GLOBAL_SEED")
IN_JOB = "RELFORMER_SWEEP_JOB"


def run_job(flags: list[str]) -> dict[str, Any]:
    """Run the current job of a sweep as a child and return its `metrics.json`.

    Raises:
        UserError: the child failed, and has said why; Hydra goes on with the other jobs.
    """
    job = HydraConfig.get()
    directory = job.runtime.output_dir
    command = [
        sys.executable,
        *(["-m", "relformer"] if sys.argv[0].endswith("__main__.py") else [sys.argv[0]]),
        *flags,
        *job.overrides.task,
        f'hydra.run.dir="{directory}"',
        "hydra.mode=RUN",
    ]
    environment = {key: value for key, value in os.environ.items() if key not in RANK_VARIABLES} | {IN_JOB: "1"}
    code = run_forwarding_signals(command, environment)
    if code:
        raise UserError(f"sweep job {job.job.num} ended with exit code {code}; see {directory}")
    return json.loads((Path(directory) / "metrics.json").read_text(encoding="utf-8"))


def run_forwarding_signals(command: list[str], environment: dict[str, str]) -> int:
    """The exit code of a child that ends with us: what would stop the sweep stops the job and its ranks first."""
    child = subprocess.Popen(command, env=environment, start_new_session=True)

    def forward(number: int, frame: FrameType | None) -> None:
        os.killpg(child.pid, number)
        child.wait()
        sys.exit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        return child.wait()  # a launcher with threads of its own; signals reach the main thread only
    previous = {number: signal.signal(number, forward) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        return child.wait()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def summarise_sweep(directory: Path) -> None:
    """At the end of a sweep, failed jobs or not: its finished runs side by side, grouped over seeds."""
    if any(directory.glob("**/metrics.json")):
        compare_runs([str(directory)])
        print(f"again: relformer compare {directory}")
