"""Jobs of a sweep as jobs of SLURM, through submitit: one a run, of as many nodes and tasks as the run has nodes and
devices.

Every task of a job runs the command line as `srun python train.py` would, so ranks come from SLURM. Before the time is
up, or when the job is preempted, the run saves, and submitit puts the job back into the queue.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from relformer.errors import UserError
from relformer.processes import LAUNCHER
from relformer.sweeps.job import Job

PACKAGE = str(Path(__file__).parents[2])


class Command:
    """What a task runs: pickled by submitit, called on the node."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.command, self.environment = list(command), dict(environment)
        self.child: subprocess.Popen[bytes] | None = None

    def __call__(self) -> int:
        environment = {**os.environ, **self.environment, LAUNCHER: str(os.getpid())}
        self.child = subprocess.Popen(self.command, env=environment, start_new_session=True)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.forward)
        return self.child.wait()

    def forward(self, number: int, frame: FrameType | None = None) -> None:
        if self.child is not None:
            os.killpg(self.child.pid, number)

    def checkpoint(self) -> Any:
        """Before the job is requeued: the run saves and ends, and goes on when the job starts again."""
        from submitit.helpers import DelayedSubmission

        if self.child is not None:
            self.forward(signal.SIGTERM)
            self.child.wait()
        return DelayedSubmission(Command(self.command, self.environment))


class Submitted:
    """A job in the queue, or running on its nodes."""

    def __init__(self, job: Any) -> None:
        self.job = job

    def poll(self) -> int | None:
        """The first exit code of a task that is not 0; that of a kill where the job ended without any."""
        from submitit.core.utils import FailedJobError, UncompletedJobError

        if not self.job.done():
            return None
        try:
            return next((code for code in self.job.results() if code), 0)
        except UncompletedJobError:
            return -signal.SIGKILL
        except FailedJobError as error:
            print(f"job {self.job.job_id}: {str(error).strip()}", file=sys.stderr)
            return 1

    def end(self, number: int) -> None:
        """The cluster has its own signal for that."""
        if type(self.job).__name__ == "LocalJob":  # its own way kills after a second, before anything is saved
            os.kill(int(self.job.job_id), signal.SIGTERM)
        else:
            self.job.cancel(check=False)


def submit(job: Job, command: Sequence[str], environment: Mapping[str, str], cluster: str, options: Any) -> Submitted:
    """Put a job into the queue of `cluster`, `slurm` or submitit's `local`.

    Raises:
        UserError: submitit is missing, knows no such option, or there is no SLURM here.
    """
    folder = job.directory.parent / "submitit" / "%j"
    try:
        import submitit
    except ModuleNotFoundError:
        raise UserError("sweep=slurm needs a package that is missing: pip install 'relformer[slurm]'") from None
    if not isinstance(job.devices, int):
        raise UserError(f"trainer.devices={job.devices}: a job of a cluster needs a number of devices a node")
    path = [PACKAGE, *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(path))  # the task finds this package as we did
    gpus = 0 if job.cpu else job.devices
    tasks = job.devices if cluster == "slurm" else 1
    try:
        executor = submitit.AutoExecutor(folder=str(folder), cluster=cluster)
        shape = {"nodes": job.nodes, "tasks_per_node": tasks, "name": f"relformer-{job.number}"}
        executor.update_parameters(**shape, **({"gpus_per_node": gpus} if gpus else {}), **(options or {}))
        submitted = executor.submit(Command(command, environment))
    except (ValueError, TypeError, NameError, RuntimeError, OSError) as error:
        raise UserError(f"submitit can't submit to sweep.cluster={cluster}: {' '.join(str(error).split())}") from None
    job.log = Path(submitted.paths.stdout)
    print(f"job {job.number}   {job}   is job {submitted.job_id} of {cluster}: {job.log}", flush=True)
    return Submitted(submitted)
