"""Where tokenizers and tokenised corpora are kept between runs: made once, by one process, under the hash of all that
went into them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

from filelock import FileLock

from relformer.errors import UserError
from relformer.files import replacing

FOLDER = "RELFORMER_CACHE"


def cache_dir() -> Path:
    """`$RELFORMER_CACHE`, else `~/.cache/relformer`."""
    return Path(os.environ.get(FOLDER) or Path.home() / ".cache" / "relformer")


def key_of(*parts: Any) -> str:
    """A name for what these JSON-able parts determine."""
    return blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=16).hexdigest()


def cached(kind: str, key: str, suffix: str, make: Callable[[Path], None]) -> Path:
    """The file of a key. Where it is not there yet, one process has `make` write it and the others wait.

    Raises:
        UserError: the cache can't be written.
    """
    path = cache_dir() / kind / f"{key}{suffix}"
    if path.exists():
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):
            if not path.exists():
                with replacing(path) as temporary:
                    make(temporary)
    except OSError as error:
        raise UserError(
            f"{path.parent} can't hold tokenised data ({error.strerror or error}); set {FOLDER} to a folder with room"
        ) from None
    return path
