"""One training a directory: a lock that the kernel gives back however its holder ends."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import socket
import time
from pathlib import Path

from relformer.errors import UserError

logger = logging.getLogger("relformer")

NAME = "lock"


class RunLock:
    """The lock file of a run directory, held until `release`. In it stand process, host and time of its holder.

    POSIX record locks: they hold over NFS as well, and a forked worker does not inherit them.

    Raises:
        UserError: another run holds it.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / NAME
        self.handle: int | None = None
        while self.handle is None:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                if not locked(handle, self.path):
                    os.close(handle)
                    return
            except UserError:
                os.close(handle)
                raise
            if self.path.exists() and os.path.samestat(os.fstat(handle), os.stat(self.path)):
                self.handle = handle
            else:  # its holder ended meanwhile, and removed it
                os.close(handle)
        if left := os.read(self.handle, 4096):
            logger.info("the run before this one ended without a word (%s); its lock is taken over", said(left))
        os.ftruncate(self.handle, 0)
        me = {"process": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        os.pwrite(self.handle, json.dumps(me).encode(), 0)

    def release(self) -> None:
        if self.handle is not None:
            self.path.unlink(missing_ok=True)
            os.close(self.handle)
            self.handle = None


def refuse_running(directory: Path) -> None:
    """Raises UserError where another process holds the lock; touches nothing, and needs no right to write. Not for the
    holder, whose lock the kernel would take back."""
    try:
        handle = os.open(directory / NAME, os.O_RDONLY)
    except OSError:
        return
    try:
        locked(handle, directory / NAME, fcntl.LOCK_SH)
    finally:
        os.close(handle)


def is_held(directory: Path) -> bool:
    """Whether a process that lives holds the lock of a directory."""
    try:
        refuse_running(directory)
    except UserError:
        return True
    return False


def locked(handle: int, path: Path, kind: int = fcntl.LOCK_EX) -> bool:
    """Whether there is a lock of this kind now; not on a file system that has none.

    Raises:
        UserError: another process holds it.
    """
    try:
        fcntl.lockf(handle, kind | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        holder = said(os.read(handle, 4096))
        raise UserError(
            f"{path.parent} is in use by another run ({holder}); wait for its end, or choose another hydra.run.dir"
        ) from None
    except OSError as error:
        logger.warning("warning: %s can't be locked (%s): two runs in it would not be noticed", path, error.strerror)
        return False
    return True


def said(content: bytes) -> str:
    """The holder in words."""
    try:
        return "process {process} on {host}, since {since}".format(**json.loads(content))
    except (ValueError, KeyError, TypeError):
        return "which does not say who it is"
