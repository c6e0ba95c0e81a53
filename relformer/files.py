"""Writing files so that nothing half-written is ever found under the final name."""

from __future__ import annotations

import errno
import json
import logging
import math
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from relformer.faults import reached

logger = logging.getLogger("relformer")

UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
TRANSIENT = (errno.EAGAIN, errno.EBUSY, errno.EINTR, errno.EIO, errno.ESTALE, errno.ETIMEDOUT)
"""Errors of a network's file system that pass."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Errors of a disk that takes nothing more."""
PAUSES = (0.1, 0.3, 1.0, 3.0)
"""Seconds between the tries to rename a file; then it has failed."""
TEMPORARY = re.compile(r"\..+\.(\d+)\.tmp(\..+)?")


@contextmanager
def replacing(path: Path, step: int | None = None) -> Iterator[Path]:
    """A temporary name beside `path`; on leaving it is synced and renamed, on an exception removed.

    `step` is for faults on purpose: that of a checkpoint.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.tmp{path.suffix}")
    try:
        yield temporary
        sync(temporary)
        rename(temporary, path, step)
        with suppress(OSError):  # not every file system syncs a folder
            sync(path.parent)
    except OSError as error:
        if error.errno in FULL:  # a write to an open file does not say which it was
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Have the disk hold a file's content, or a folder's names."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def rename(source: Path, target: Path, step: int | None = None) -> None:
    """Rename, trying again where the fault may pass."""
    for pause in (*PAUSES, None):
        try:
            if step is not None:
                reached("rename", step)
            os.replace(source, target)
            return
        except OSError as error:
            if error.errno not in TRANSIENT or pause is None:
                raise
            logger.warning("warning: %s can't be renamed (%s); trying again in %s s", source, error.strerror, pause)
            time.sleep(pause)


def remove_leftovers(run_dir: Path) -> list[Path]:
    """Remove what a killed run was writing below its directory. The caller is the only one that trains there.

    Checkpoints are nobody else's; another file may be written by a command that looks at the run, and stays while its
    process lives.
    """
    removed = []
    for path in run_dir.rglob(".*.tmp*"):
        found = TEMPORARY.fullmatch(path.name)
        if found and (path.parent.name == "checkpoints" or not Path(f"/proc/{found[1]}").exists()):
            path.unlink(missing_ok=True)
            removed.append(path)
    return removed


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def sized(count: float) -> str:
    """Bytes in words: ``1.5 GiB``."""
    power = min(int(math.log2(max(count, 1)) / 10), len(UNITS) - 1)
    return f"{count / 1024**power:.3g} {UNITS[power]}"
