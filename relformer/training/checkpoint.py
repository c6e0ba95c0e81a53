"""Checkpoints that a kill or a full disk leaves whole: written beside their target, synced and renamed.

Of `last.ckpt` the one before is kept as `previous.ckpt`.
"""

from __future__ import annotations

import errno
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from lightning.fabric.plugins import TorchCheckpointIO

from relformer.errors import RunError
from relformer.files import replacing, write_text
from relformer.training.resume import CHECKPOINTED
from relformer.training.sealing import BEST, LAST, PREVIOUS, damage, read_step, write_sealed

logger = logging.getLogger("relformer")

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class AtomicCheckpointIO(TorchCheckpointIO):
    """A failed write leaves the files as they were; Lightning's own destroys the last good one on a full disk.

    Args:
        on_full: `stop` ends training where the disk is full, `go_on` warns and trains on.
    """

    def __init__(self, on_full: str = "stop") -> None:
        self.on_full = on_full
        self.sound: set[Path] = set()
        """What was written by us, and need not be read again before it is kept."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Raises RunError where it can't be written, which leaves the file of that name as it was."""
        path, step = Path(path), int(checkpoint.get("global_step", 0))
        try:
            with replacing(path, step) as temporary:
                write_sealed(checkpoint, temporary, step)
                if path.name == LAST:
                    self.keep(path, step)
        except OSError as error:
            said = f"the checkpoint of step {step} was not written to {path}: {error.strerror or error}"
            if self.on_full == "go_on" and error.errno in NO_ROOM:
                logger.warning("warning: %s; training goes on without it, since on_full=go_on", said)
                return
            remedy = "make room" if error.errno in NO_ROOM else "mend that"
            kept = f"that of step {read_step(path)} is whole" if path.exists() else "there is none before it"
            raise RunError(f"{said}; {kept}; {remedy}, then go on with resume=auto") from error
        self.sound.add(path)
        if path.name in (LAST, BEST) and path.parent.name == "checkpoints":
            with suppress(OSError):  # it is there from the first checkpoint on, and that is what counts
                write_text(path.parent.parent / CHECKPOINTED, f"{step}\n")

    def keep(self, path: Path, step: int) -> None:
        """Make `path` the previous one as well, unless it is damaged or of this step too: then the one before is the
        better."""
        if path.exists() and (path in self.sound or damage(path) is None) and read_step(path) != step:
            previous = path.with_name(PREVIOUS)
            try:
                with replacing(previous) as temporary:
                    os.link(path, temporary)
            except OSError:  # a file system without hard links
                os.replace(path, previous)
