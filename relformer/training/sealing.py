"""The bytes of a checkpoint: written with a seal, and known to be good or damaged without loading anything.

A file ends with the SHA-256 of itself, as the comment of the zip archive that torch writes: torch.load does not notice
a flipped bit in a weight, and a sum in a file of its own could be that of another checkpoint.
"""

from __future__ import annotations

import hashlib
import os
import stat
import zipfile
from contextlib import suppress
from pathlib import Path
from pickle import UnpicklingError
from typing import IO, Any, cast

import torch

from relformer.errors import UserError
from relformer.faults import reached
from relformer.training.exported import exported_damage, is_exported, settings_of

LAST, PREVIOUS, BEST = "last.ckpt", "previous.ckpt", "best.ckpt"
"""All three are whole: a run can go on from each."""
SEAL = b"sha256:"
SEAL_SIZE = len(SEAL) + 64
HALF_WRITTEN = 1 << 15
"""Bytes behind which a fault on purpose strikes; the smallest checkpoints have some times as many."""
UNREADABLE = (KeyError, RuntimeError, EOFError, ValueError, TypeError, UnpicklingError)


class Sealing:
    """A file that torch writes to, and the digest of what it wrote.

    Keeps the error of a failed write, which torch replaces by one about positions.
    """

    def __init__(self, file: IO[bytes], step: int) -> None:
        self.file, self.step, self.digest = file, step, hashlib.sha256()
        self.error: Exception | None = None

    def write(self, content: bytes) -> int:
        try:
            if self.file.tell() > HALF_WRITTEN:
                reached("checkpoint", self.step)
            self.digest.update(content)
            return self.file.write(content)
        except Exception as error:
            self.error = error
            raise

    def flush(self) -> None:
        self.file.flush()


def write_sealed(checkpoint: dict[str, Any], path: Path, step: int) -> None:
    """Write a checkpoint with its seal: the comment of a zip archive stands behind everything else, after its size."""
    with open(path, "wb") as file:
        sealing = Sealing(file, step)
        try:
            torch.save(checkpoint, cast(IO[bytes], sealing))
        except RuntimeError:
            if sealing.error is None:
                raise
            raise sealing.error from None
        file.seek(-2, os.SEEK_END)
        file.write(SEAL_SIZE.to_bytes(2, "little") + SEAL + sealing.digest.hexdigest().encode())


def damage(path: Path) -> str | None:
    """What is wrong with a checkpoint's bytes, if anything; one without a seal is held against its archive's own
    sums, an exported one against its config.json."""
    if is_exported(path):
        return exported_damage(path)
    try:
        return sealed_damage(path)
    except FileNotFoundError:
        raise
    except OSError as error:  # a disk that fails, a link that leads in a circle
        return f"it can't be read ({error.strerror})"


def sealed_damage(path: Path) -> str | None:
    if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe would be waited for
        return "it is no regular file"
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - SEAL_SIZE, 0))
        seal = file.read()
        if not seal.startswith(SEAL):
            return archive_damage(file)
        file.seek(0)
        digest, left = hashlib.sha256(), size - SEAL_SIZE - 2
        while block := file.read(min(left, 1 << 20)):
            digest.update(block)
            left -= len(block)
        digest.update(b"\0\0")  # the size of the comment, as it was before there was one
    said = seal.removeprefix(SEAL).decode(errors="replace")
    return None if digest.hexdigest() == said else "its SHA-256 is not the one written at its end"


def archive_damage(file: IO[bytes]) -> str | None:
    try:
        with zipfile.ZipFile(file) as archive:
            broken = archive.testzip()
    except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError, OSError):
        return "it is cut off, or no checkpoint"
    return f"its part {broken} is damaged" if broken else None


def read_step(path: Path) -> int:
    """The optimizer steps behind a checkpoint."""
    if is_exported(path):
        return int(settings_of(path)["step"])
    return int(torch.load(path, map_location="cpu", weights_only=True, mmap=True)["global_step"])


def known_step(path: Path) -> int | None:
    """The same, or None where there is no checkpoint that can be read."""
    with suppress(FileNotFoundError, *UNREADABLE):
        return read_step(path)
    return None


def refuse_damaged(path: Path) -> None:
    """Raises UserError where a checkpoint's bytes are not those that were written; names a good one beside it."""
    if fault := damage(path):
        good = [other for other in good_ones(path.parent) if other != path]
        other = f"{good[0]} (step {read_step(good[0])}) is good" if good else "there is no good one beside it"
        raise UserError(f"{path} is damaged: {fault}; {other}")


def good_ones(folder: Path) -> list[Path]:
    """The whole, undamaged checkpoints of a folder, the latest first."""
    found: list[tuple[int, Path]] = []
    for path in (folder / LAST, folder / PREVIOUS, folder / BEST):
        with suppress(FileNotFoundError, *UNREADABLE):
            if damage(path) is None:
                found.append((read_step(path), path))
    return [path for _, path in sorted(found, key=lambda each: -each[0])]
