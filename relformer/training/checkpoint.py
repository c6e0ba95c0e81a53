"""Checkpoints written beside their target and renamed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins import TorchCheckpointIO

from relformer.files import replacing


class AtomicCheckpointIO(TorchCheckpointIO):
    """A kill or a full disk while writing leaves the previous checkpoint as it was; Lightning's own does not."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        with replacing(Path(path)) as temporary:
            torch.save(checkpoint, temporary)
