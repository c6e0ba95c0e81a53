"""Timing on a machine that others use too: competitors take turns, and what counts is the ratio of neighbours.

All run in one process. On a CPU with one thread its own time is measured, which waiting does not lengthen; with several
threads the clock's, since their own would be added up; on a GPU the time from one synchronisation to the next.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

import torch

Times = dict[str, list[float]]
"""Seconds of each turn, by competitor; equal places are of one round."""


def taking_turns(competitors: Mapping[str, Callable[[], object]], rounds: int, device: torch.device) -> Times:
    """Run each competitor once a round, after one round that is not counted."""
    times: Times = {name: [] for name in competitors}
    for turn in range(rounds + 1):
        for name, run in competitors.items():
            start = now(device)
            run()
            taken = now(device) - start
            if turn:
                times[name].append(taken)
    return times


def now(device: torch.device) -> float:
    if device.type == "cpu":
        return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()
    torch.accelerator.synchronize(device)
    return time.perf_counter()


def ratio(times: Times, slow: str, fast: str) -> float:
    """How many times as fast the second is as the first: the median over the rounds."""
    return statistics.median(a / b for a, b in zip(times[slow], times[fast], strict=True))
