"""Finding the checkpoint to continue from, and refusing one that belongs to another run."""

from __future__ import annotations

from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from relformer.errors import UserError

RUN_KEYS = (
    "seed",
    "model",
    "encoding",
    "decoder_encoding",
    "cross_encoding",
    "attention",
    "loss",
    "optimizer",
    "scheduler",
    "data",
    "eval",
)
"""The parts of the configuration that make a run what it is; they travel in its checkpoints."""


def checkpoint_to_resume(resume: str | None, run_dir: Path) -> Path | None:
    """The checkpoint that `resume` means: `auto` is the last one of the run directory, if there is one.

    Raises:
        UserError: a path without a checkpoint, or a directory that holds a run which `resume` does not continue.
    """
    last = run_dir / "checkpoints" / "last.ckpt"
    if resume is None and last.exists():
        raise UserError(f"{run_dir} already holds a run; continue it with resume=auto, or choose another hydra.run.dir")
    if resume in (None, "auto"):
        return last if last.exists() else None
    path = Path(str(resume))
    if not path.is_file():
        raise UserError(f"resume={resume} is not a file; give the path of a checkpoint, auto, or null")
    return path


def read_config(path: Path) -> dict[str, Any]:
    """The plain configuration a checkpoint carries, read without running any code in it.

    Raises:
        UserError: not a checkpoint of relformer.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        config: dict[str, Any] = content["hyper_parameters"]["config"]
    except (KeyError, RuntimeError, EOFError, ValueError, TypeError, UnpicklingError) as error:
        raise UserError(f"{path} is not a relformer checkpoint ({type(error).__name__}); choose another") from None
    return config


def refuse_other_config(path: Path, config: dict[str, Any]) -> None:
    """A run continues only as the run it was: parts of its configuration against those in the checkpoint.

    Raises:
        UserError: naming what differs.
    """
    then = read_config(path)
    different = sorted(key for key in RUN_KEYS if then.get(key) != config.get(key))
    if different:
        raise UserError(
            f"{path} was written with other options ({', '.join(different)}); a resumed run must have the same ones: "
            "repeat the first command, or start a new run directory"
        )
