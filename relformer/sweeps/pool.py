"""Running a sweep's jobs, one or several at a time: whatever ends the sweep ends them first, which save.

The loop lives in the main thread and asks; it waits for no job in particular, so a signal is noticed at once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from relformer.files import write_text
from relformer.processes import LAUNCHER
from relformer.sweeps.job import FINISHED, Job, now
from relformer.training.signals import signals

PAUSE = 0.1
"""Seconds between two looks at the jobs."""


class Handle(Protocol):
    """A job that was started."""

    def poll(self) -> int | None:
        """Its exit code, negative where a signal killed it; None while it runs."""

    def end(self, number: int) -> None:
        """Have it end by this signal."""


class Process:
    """A job on this machine: a process with its ranks and workers in a session of their own, which ends as one."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path | None) -> None:
        """`log` takes what it prints; None lets it print here."""
        output = None
        if log is not None:
            log.parent.mkdir(parents=True, exist_ok=True)
            output = log.open("ab")
        full = {**environment, LAUNCHER: str(os.getpid())}
        stream = subprocess.STDOUT if output is not None else None
        self.child = subprocess.Popen(command, env=full, start_new_session=True, stdout=output, stderr=stream)
        if output is not None:
            output.close()

    def poll(self) -> int | None:
        code = self.child.poll()
        if code is not None:
            with suppress(ProcessLookupError, PermissionError):  # of the session nothing is left, as it should be
                os.killpg(self.child.pid, signal.SIGKILL)
        return code

    def end(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.child.pid, number)


def run_all(
    jobs: Iterator[Job],
    at_once: int,
    start: Callable[[Job, int], Handle],
    changed: Callable[[Job], object],
) -> list[Job]:
    """Run jobs as they come, so many at once, and return them all; one that fails stops no other.

    Args:
        start: starts a job in a place, 0 to `at_once` - 1, that no other job has meanwhile.
        changed: called when a job has started, and when it has ended.

    Raises:
        Interrupted: a signal came; all jobs received it too, and have ended.
    """
    free, active, seen = list(range(at_once)), dict[int, tuple[Job, Handle]](), list[Job]()
    told = False
    signals.hold()
    try:
        while True:
            while free and not told and (job := next(jobs, None)) is not None:
                seen.append(job)
                if job.finished:
                    print(f"finished before: {job.directory}", flush=True)
                    job.exit_code = 0
                    changed(job)
                    continue
                place = free.pop(0)
                job.started, job.seconds, job.exit_code = now(), None, None
                active[place] = job, start(job, place)
                changed(job)
            if not active:
                return seen
            for place, (job, handle) in list(active.items()):
                if (code := handle.poll()) is not None:
                    del active[place]
                    free = sorted([*free, place])
                    end(job, code)
                    changed(job)
            if signals.received is not None and not told:
                told = True
                end_all(active, signals.received)
            time.sleep(PAUSE)
    finally:
        end_all(active, signal.SIGTERM)
        signals.release()


def end(job: Job, code: int) -> None:
    assert job.started is not None
    job.exit_code, job.seconds = code, round(time.time() - job.started, 1)
    if code == 0:
        write_text(job.directory / FINISHED, f"{job.key}\n")


def end_all(active: Mapping[int, tuple[Job, Handle]], number: int) -> None:
    for _, handle in active.values():
        handle.end(number)
