"""What tells files and settings apart."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digits_of(parts: Any) -> str:
    """Eight hexadecimal digits that are equal for equal containers, whatever the order of their keys."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:8]
