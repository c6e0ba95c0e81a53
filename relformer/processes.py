"""The processes of a run, its ranks, a sweep's jobs and the workers that prepare batches: none outlives it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

LAUNCHER = "RELFORMER_LAUNCHER"
"""In the environment of ranks and jobs: the process that started them."""
SET_PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of linux/prctl.h."""


def is_first_rank() -> bool:
    return all(os.environ.get(variable, "0") == "0" for variable in ("RANK", "LOCAL_RANK", "SLURM_PROCID"))


def launcher() -> int | None:
    """The process that started this one as another rank of its run. Ranks of torchrun or SLURM have none."""
    launched = LAUNCHER in os.environ and os.environ.get("LOCAL_RANK", "0") != "0"
    return int(os.environ[LAUNCHER]) if launched else None


def end_with_launcher() -> None:
    """A rank dies with the process that started it; a job of a sweep, which may save first, is asked to end."""
    if launcher() is not None:
        end_with_parent(signal.SIGKILL)
    elif os.environ.get(LAUNCHER) == str(os.getppid()):
        end_with_parent(signal.SIGTERM)


def end_with_parent(number: int) -> None:
    """Have the kernel send us a signal when our parent ends, however it ends; Linux alone can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, number, 0, 0, 0)
