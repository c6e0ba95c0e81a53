"""A job of SLURM that is running out of time puts itself back into the queue."""

from __future__ import annotations

import logging
import os
import subprocess

logger = logging.getLogger("relformer")

REQUEUE_SECONDS = 20


def job_id() -> str | None:
    """As `scontrol` wants it: a task of an array has two numbers."""
    if "SLURM_ARRAY_JOB_ID" in os.environ:
        return f"{os.environ['SLURM_ARRAY_JOB_ID']}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    return os.environ.get("SLURM_JOB_ID")


def requeue() -> None:
    """Have SLURM start this job again; where that fails, say how it is done by hand."""
    job = job_id()
    if job is None:
        return
    command = ["scontrol", "requeue", job]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=REQUEUE_SECONDS, check=False)
        fault = "" if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"
    except (OSError, subprocess.TimeoutExpired) as error:
        fault = str(error)
    if fault:
        logger.warning("warning: SLURM did not requeue job %s (%s); do it by hand: %s", job, fault, " ".join(command))
    else:
        logger.info("SLURM job %s is requeued; it goes on from the last checkpoint", job)
