"""Writing files so that nothing half-written is ever found under the final name."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name beside `path`; on leaving it is synced and renamed, on an exception removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.tmp{path.suffix}")
    try:
        yield temporary
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def sized(count: float) -> str:
    """Bytes in words: ``1.5 GiB``."""
    power = min(int(math.log2(max(count, 1)) / 10), len(UNITS) - 1)
    return f"{count / 1024**power:.3g} {UNITS[power]}"
