"""Finding the checkpoint to continue from, and refusing one that belongs to another run."""

from __future__ import annotations

from pathlib import Path
from pickle import UnpicklingError
from typing import Any, cast

import torch
from omegaconf import DictConfig

from relformer.config import plain
from relformer.data.encoded import Corpus
from relformer.data.vocabulary import stored_pair
from relformer.errors import UserError
from relformer.redaction import redact

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
    "decoding",
)
"""The parts of the configuration that make a run what it is; they travel in its checkpoints."""
PLACE_KEYS = (
    "_target_",
    "accelerator",
    "devices",
    "num_nodes",
    "strategy",
    "max_steps",
    "max_epochs",
    "log_every_n_steps",
    "deterministic",
)
"""What of the Trainer may differ when a run goes on: where it runs, how long, and what it logs."""
TRACES = ("csv/metrics.csv", "wandb_id", "checkpoints")
"""What a run leaves in its directory before its first checkpoint, and after."""


def checkpoint_to_resume(resume: str | None, run_dir: Path) -> Path | None:
    """The checkpoint that `resume` means: `auto` is the last one of the run directory, if there is one."""
    last = run_dir / "checkpoints" / "last.ckpt"
    if resume == "auto":
        return last if last.exists() else None
    return None if resume is None else Path(resume)


def refuse_occupied(resume: str | None, run_dir: Path) -> None:
    """A run directory must be free, or hold the run to continue.

    Raises:
        UserError: it holds a run which `resume` does not continue.
    """
    continues = resume == "auto" or (resume is not None and Path(resume).resolve().is_relative_to(run_dir.resolve()))
    if not continues and any((run_dir / trace).exists() for trace in TRACES):
        raise UserError(f"{run_dir} already holds a run; continue it with resume=auto, or choose another hydra.run.dir")


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


def read_step(path: Path) -> int:
    """The optimizer steps behind a checkpoint."""
    return int(torch.load(path, map_location="cpu", weights_only=True, mmap=True)["global_step"])


def run_parts(config: DictConfig) -> dict[str, Any]:
    """What makes a run what it is, wherever it is started: `RUN_KEYS` and the Trainer's part in the numbers. It is
    stored, so secrets are masked."""
    trainer = plain(config, "trainer")["trainer"]
    parts = {**plain(config, *RUN_KEYS), "trainer": {k: v for k, v in trainer.items() if k not in PLACE_KEYS}}
    return cast(dict[str, Any], redact(parts))


def refuse_other_config(path: Path, parts: dict[str, Any], max_steps: int | None) -> None:
    """A run continues only as the run it was: its `run_parts` against those in the checkpoint.

    Raises:
        UserError: naming what differs, or that it is further than `max_steps`.
    """
    then, done = read_config(path), read_step(path)
    if max_steps is not None and done > max_steps:
        raise UserError(f"{path} is of step {done}, beyond trainer.max_steps={max_steps}; set it to {done} or more")
    different = sorted(key for key in (*RUN_KEYS, "trainer") if then.get(key) != parts.get(key))
    if different:
        raise UserError(
            f"{path} was written with other options ({', '.join(different)}); a resumed run must have the same ones: "
            "repeat the first command, or start a new run directory"
        )


def refuse_other_data(path: Path, corpus: Corpus) -> None:
    """A run goes on with the data it began with, whatever happened to the files they were read from.

    Raises:
        UserError: the training pairs, or the tokens they are made of, are not those of the checkpoint.
    """
    then = read_config(path)
    vocabulary = stored_pair(corpus.source_vocabulary, corpus.target_vocabulary)
    if (then["vocabulary"], then["fingerprint"]) != (vocabulary, corpus.fingerprint):
        raise UserError(
            f"the training data are not those that {path} was trained on: the files have changed; restore them, or "
            "start a new run directory"
        )
