"""Faults on purpose, at a given place of a run, so that a test of what happens then is no matter of luck.

    RELFORMER_FAULT=KIND@[rankN:]PLACEn[-m][*TIMES]      several are separated by commas

    kill@rank1:step5       SIGKILL to rank 1 in the forward pass of optimizer step 5 (four are behind it)
    stop@validation8       SIGSTOP in the validation at step 8
    diskfull@checkpoint6   no space left while a checkpoint of step 6 is half written
    stale@rename6*2        renaming it fails twice
    nan@step5-7            the loss of steps 5, 6 and 7 is NaN

Without a rank, on every rank that comes there. Each number fires once, or TIMES, in one process.
"""

from __future__ import annotations

import errno
import os
import re
import signal
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from relformer.errors import UserError

VARIABLE = "RELFORMER_FAULT"
Place = Literal["step", "validation", "checkpoint", "rename"]
PLACES = ("step", "validation", "checkpoint", "rename")
"""All counted in optimizer steps: the step being made, else the steps behind. `checkpoint` is in the middle of the
file, `rename` after it is on disk."""
SIGNALS = {
    "kill": signal.SIGKILL,
    "term": signal.SIGTERM,
    "int": signal.SIGINT,
    "usr1": signal.SIGUSR1,
    "stop": signal.SIGSTOP,
}
ERRORS = {"diskfull": errno.ENOSPC, "stale": errno.ESTALE}
LEFT_TO_CALLER = ("nan", "inf")
"""What `reached` only returns: the caller spoils its own numbers."""
KINDS = (*SIGNALS, *ERRORS, "raise", "oom", *LEFT_TO_CALLER)
FORM = re.compile(r"([a-z0-9]+)@(?:rank(\d+):)?([a-z]+?)(\d+)(?:-(\d+))?(?:\*(\d+))?")


@dataclass
class Fault:
    """One fault: `times` at each number from `first` to `last` of its place."""

    kind: str
    rank: int | None
    place: str
    first: int
    last: int
    times: int
    fired: Counter[int] = field(default_factory=Counter)

    def due(self, place: str, number: int) -> bool:
        return (
            self.place == place
            and self.first <= number <= self.last
            and self.fired[number] < self.times
            and self.rank in (None, own_rank())
        )


_armed: list[Fault] | None = None


def arm(text: str | None) -> None:
    """Take over the faults of `text`, which is the variable's value; None or an empty one disarms.

    Raises:
        UserError: it is not of the form above.
    """
    global _armed
    _armed = [parsed(each.strip()) for each in text.split(",")] if text else None


def parsed(text: str) -> Fault:
    found = FORM.fullmatch(text)
    if found is None:
        raise UserError(f"{VARIABLE}: {text!r} is not KIND@[rankN:]PLACEn[-m][*TIMES], such as kill@rank1:step5")
    kind, rank, place, first, last, times = found.groups()
    for name, value, known in (("kind", kind, KINDS), ("place", place, PLACES)):
        if value not in known:
            raise UserError(f"{VARIABLE}: {value!r} in {text!r} is no {name} of fault; there are {', '.join(known)}")
    return Fault(kind, int(rank) if rank else None, place, int(first), int(last or first), int(times or 1))


def reached(place: Place, number: int) -> str | None:
    """Do what was asked for here, if anything. Returns a kind that is left to the caller, else None.

    Raises:
        OSError, RuntimeError, torch.OutOfMemoryError: the fault asked for.
    """
    if _armed is None:
        return None
    fault = next((each for each in _armed if each.due(place, number)), None)
    if fault is None:
        return None
    fault.fired[number] += 1
    said = f"{VARIABLE}: {fault.kind} at {place} {number}"
    if fault.kind in SIGNALS:
        os.kill(os.getpid(), SIGNALS[fault.kind])
    elif fault.kind in ERRORS:
        raise OSError(ERRORS[fault.kind], os.strerror(ERRORS[fault.kind]))
    elif fault.kind == "oom":
        import torch

        raise torch.OutOfMemoryError(f"CUDA out of memory. ({said})")
    elif fault.kind == "raise":
        raise RuntimeError(said)
    return fault.kind if fault.kind in LEFT_TO_CALLER else None


def own_rank() -> int:
    """From the environment, since a fault may be due before a Trainer knows."""
    return next((int(os.environ[name]) for name in ("RANK", "SLURM_PROCID", "LOCAL_RANK") if name in os.environ), 0)
