"""Timing on a machine that others use too: competitors take turns, and what counts is the ratio of neighbours.

All run in one process. On a CPU with one thread its own time is measured, which waiting does not lengthen; with several
threads the clock's, since their own would be added up; on a GPU the time from one synchronisation to the next.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

Times = dict[str, list[float]]
"""Seconds of each turn, by competitor; equal places are of one round."""


@dataclass(frozen=True)
class Spread:
    """A median over the rounds and the quartiles around it."""

    median: float
    low: float
    high: float


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


def ratio(times: Times, slow: str, fast: str) -> Spread:
    """How many times as long the first takes as the second, round by round."""
    rounds = [a / b for a, b in zip(times[slow], times[fast], strict=True)]
    low, median, high = np.quantile(rounds, (0.25, 0.5, 0.75)).tolist()
    return Spread(median, low, high)


@dataclass(frozen=True)
class Measured:
    """Times and peaks (MB) of competitors that took turns; empty where they were not asked for."""

    times: Times
    peaks: Mapping[str, float]

    def milliseconds(self, name: str) -> float | None:
        return 1000 * statistics.median(self.times[name]) if name in self.times else None

    def slower(self, name: str, other: str) -> Spread | None:
        """How many times as long it takes as the other; None where either was not measured."""
        return ratio(self.times, name, other) if {name, other} <= self.times.keys() else None

    def larger(self, name: str, other: str) -> float | None:
        """How many times as much memory it needs at its peak; None too where the other's is too little to be seen."""
        return self.peaks[name] / self.peaks[other] if name in self.peaks and self.peaks.get(other) else None
