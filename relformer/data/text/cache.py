"""Where tokenizers and tokenised corpora are kept between runs: made once, by one process, under the hash of all that
went into them."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout

from relformer.errors import UserError
from relformer.files import replacing

logger = logging.getLogger("relformer")
FOLDER = "RELFORMER_CACHE"
PATIENCE = 2.0
"""Seconds to wait for another process before saying so."""
T = TypeVar("T")


def cache_dir() -> Path:
    """`$RELFORMER_CACHE`, else `~/.cache/relformer`."""
    return Path(os.environ.get(FOLDER) or Path.home() / ".cache" / "relformer")


def key_of(*parts: Any) -> str:
    """A name for what these JSON-able parts determine."""
    return blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=16).hexdigest()


def cached(kind: str, key: str, suffix: str, make: Callable[[Path], None], load: Callable[[Path], T]) -> T:
    """What `load` reads from the file of a key. Where there is none, or one that `load` can't read, one process has
    `make` write it and the others wait.

    Raises:
        UserError: the cache can't be written.
    """
    path = cache_dir() / kind / f"{key}{suffix}"
    if (found := intact(path, load)) is not None:
        return found
    with filled(path.parent), waited_for(FileLock(path.with_suffix(".lock")), kind):
        if (found := intact(path, load)) is not None:
            return found
        for left in path.parent.glob(f".*{key}.*.tmp{suffix}"):
            left.unlink()  # of a process that was killed: whoever holds the lock is the only one to write
        with replacing(path) as temporary:
            make(temporary)
    return load(path)


@contextmanager
def filled(folder: Path) -> Iterator[Path]:
    """A folder of the cache to write into.

    Raises:
        UserError: it can't be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
    except OSError as error:
        raise UserError(
            f"{folder} can't hold tokenised data ({error.strerror or error}); set {FOLDER} to a folder with room"
        ) from None


def intact(path: Path, load: Callable[[Path], T]) -> T | None:
    """What a file holds; None where it does not exist or was damaged since it was written."""
    if not path.exists():
        return None
    try:
        return load(path)
    except (ValueError, KeyError, TypeError, OSError, UserError) as error:
        logger.warning("%s is damaged and is made again (%s)", path, str(error).partition("\n")[0])
        return None


def waited_for(lock: FileLock, kind: str) -> AbstractContextManager[Any]:
    """The lock, held. Says so where another process keeps it for longer than a moment."""
    try:
        return lock.acquire(timeout=PATIENCE)
    except Timeout:
        logger.info("waiting for another process, which makes the same of the %s", kind)
        return lock.acquire()
