"""The disk a run writes to: tried before step 0, room for the checkpoints estimated, and logs that may fail."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from relformer.errors import UserError
from relformer.files import sized

logger = logging.getLogger("relformer")
PROBE = 1 << 16
"""Bytes; as root permissions refuse nothing, so only writing shows what a disk takes."""
MOMENTS = 2
"""Numbers that the usual optimizers keep of each weight."""
_told: set[str] = set()


def made_writable(directory: Path, option: str = "paths.log_dir") -> None:
    """Make a directory and write a little into it, so that a run fails before its first step and not in its middle.
    Where that fails, nothing is left of it.

    Raises:
        UserError: it can't be made or written.
    """
    missing = [place for place in (directory, *directory.parents) if not place.exists()]
    probe = directory / f".probe.{os.getpid()}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        try:
            with probe.open("wb") as file:
                file.write(bytes(PROBE))
                os.fsync(file.fileno())
        finally:
            probe.unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        for place in missing:
            with suppress(OSError):
                place.rmdir()
        reason = getattr(error, "strerror", None) or error
        what = "can't be written" if directory.exists() or not missing else "can't be made or written"
        raise UserError(f"the directory {directory} {what}: {reason}; set {option}") from None


def room_warning(directory: Path, parameters: int, callbacks: list[Any]) -> list[str]:
    """A sentence where a run's checkpoints, as they are estimated, need more than the disk has."""
    needed, free = checkpoint_bytes(parameters, callbacks), shutil.disk_usage(directory).free
    if needed <= free:
        return []
    return [
        f"warning: the checkpoints need about {sized(needed)}, and the disk of {directory} has {sized(free)} free; "
        "make room, or set paths.log_dir"
    ]


def checkpoint_bytes(parameters: int, callbacks: list[Any]) -> int:
    """Of all that a run keeps at once, and of the one being written beside them; float32 throughout."""
    weights = 4 * parameters
    whole = weights * (1 + MOMENTS)
    kept = [
        (weights if getattr(each, "save_weights_only", False) else whole) * max(getattr(each, "save_top_k", 1), 1)
        for each in callbacks
        if "Checkpoint" in type(each).__name__
    ]
    return sum(kept) + whole * 2  # the one before the last, and a temporary


@contextmanager
def spared(what: str) -> Iterator[None]:
    """For what training can do without: a log, a figure. A disk that fails it is told of once, and training goes on."""
    try:
        yield
    except OSError as error:
        if what not in _told:
            _told.add(what)
            logger.warning(
                "warning: %s can't be written (%s); training goes on without, and this is said once",
                what,
                error.strerror or error,
            )
