"""The threads of a process: the machine's cores, shared by the processes that train on it."""

from __future__ import annotations

import os

import torch

VARIABLE = "OMP_NUM_THREADS"


def share_cores(processes: int, threads: int | None) -> None:
    """Give this process, one of so many on the machine, its share of the cores, or so many `threads`.

    torch takes every physical core for each process, and threads that wait for a core hold up all the others. What
    `OMP_NUM_THREADS` says stands where `threads` is None. SLURM has shared the cores out already. Workers that load
    data have one thread each, by torch's own doing.
    """
    if threads is None and VARIABLE not in os.environ:
        cores = os.environ.get("SLURM_CPUS_PER_TASK")
        threads = int(cores) if cores else max(1, torch.get_num_threads() // processes)
    if threads is not None:
        torch.set_num_threads(threads)
        if processes > 1:
            os.environ[VARIABLE] = str(threads)  # Lightning starts the other ranks with it, or sets its own
