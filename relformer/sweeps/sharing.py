"""Jobs side by side share the machine: each has GPUs of its own, and its part of the cores."""

from __future__ import annotations

import os

import torch
from omegaconf import DictConfig

from relformer.errors import UserError
from relformer.sweeps.job import Job
from relformer.training.threads import VARIABLE

VISIBLE = "CUDA_VISIBLE_DEVICES"


class Share:
    """What each of so many places gets."""

    def __init__(self, places: int, config: DictConfig) -> None:
        self.places, self.threads = places, config.hardware.threads

    def variables(self, place: int, job: Job) -> dict[str, str]:
        """The environment of a job in a place; empty where it has the machine to itself, as with jobs of a cluster.

        Places, not numbers of jobs, are dealt out: two jobs that run meanwhile never meet on a GPU unless there are
        too few.

        Raises:
            UserError: a job takes every GPU.
        """
        if self.places == 1:
            return {}
        found: dict[str, str] = {}
        gpus = [] if job.cpu else visible_gpus()
        if gpus:
            if not isinstance(job.devices, int):
                raise UserError(
                    f"trainer.devices={job.devices} takes every GPU, and jobs run side by side; say how many each has"
                )
            first = place * job.devices
            found[VISIBLE] = ",".join(gpus[(first + each) % len(gpus)] for each in range(min(job.devices, len(gpus))))
        if self.threads is None and VARIABLE not in os.environ:
            processes = job.devices if isinstance(job.devices, int) else 1
            found[VARIABLE] = str(max(1, torch.get_num_threads() // (self.places * processes)))
        return found


def visible_gpus() -> list[str]:
    if VISIBLE in os.environ:
        return [each for each in os.environ[VISIBLE].split(",") if each.strip() not in ("", "-1")]
    return [str(each) for each in range(torch.cuda.device_count())]
