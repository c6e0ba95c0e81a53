"""Finding the checkpoint to continue from: the newest good one, never silently none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from omegaconf import DictConfig, OmegaConf

from relformer.config import plain
from relformer.data.encoded import Corpus
from relformer.data.vocabulary import stored_pair
from relformer.errors import UserError
from relformer.redaction import redact
from relformer.training.exported import exported_config, is_exported
from relformer.training.sealing import BEST, LAST, PREVIOUS, UNREADABLE, damage, good_ones, refuse_damaged

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
EMA = "ema"
"""The callback that changes what is validated and tested."""
WATCHERS = ("relformer.", "lightning.pytorch.callbacks.ModelCheckpoint")
"""Where callbacks come from that watch or keep, and leave a run's numbers alone, but for these:"""
ENDING = ("relformer.training.callbacks.early_stopping.EarlyStopping",)
LOSS = "val/iid/loss"
"""What is best when low, unless told otherwise."""
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
CHECKPOINTED = "checkpoint_step"
"""Beside the folder of checkpoints: the step of the latest, so that a deleted folder is not taken for a new run."""
TRACES = ("csv/metrics.csv", "wandb_id", "checkpoints", CHECKPOINTED)
"""What a run leaves in its directory before its first checkpoint, and after."""
OVER = "to start over, choose another hydra.run.dir or delete this one"


@dataclass(frozen=True)
class Start:
    """Where training begins: `checkpoint`, or step 0 where that is None; and what is to be said about it."""

    checkpoint: Path | None
    said: tuple[str, ...] = ()


def where_to_start(resume: str | None, run_dir: Path) -> Start:
    """What `resume` means: `auto` is the last checkpoint of the run directory, or the newest good one before it.

    Raises:
        UserError: the checkpoint asked for is damaged, or the directory's are all damaged or gone.
    """
    if resume is None:
        return Start(None)
    if resume != "auto":
        refuse_damaged(Path(resume))
        return Start(Path(resume))
    folder = run_dir / "checkpoints"
    last = folder / LAST
    if last.exists() and damage(last) is None:
        return Start(last)
    good = good_ones(folder)
    bad = {
        path: damage(path) for path in (last, folder / PREVIOUS, folder / BEST) if path.exists() and path not in good
    }
    said = tuple(
        f"warning: {path} is damaged: {fault or 'it is no checkpoint'}; not used" for path, fault in bad.items()
    )
    if good:
        return Start(good[0], said)
    if bad:
        raise UserError("\n".join((f"resume=auto: no checkpoint in {folder} is good; {OVER}", *said)))
    if (run_dir / CHECKPOINTED).exists() or (run_dir / "metrics.json").exists():
        raise UserError(f"resume=auto: {run_dir} had checkpoints, and they are gone; put them back, or, {OVER}")
    if any((run_dir / trace).exists() for trace in TRACES):
        return Start(None, (f"resume=auto: {run_dir} was stopped before its first checkpoint, so it starts at step 0",))
    return Start(None, (f"resume=auto: no checkpoint in {run_dir}, so this run starts at step 0",))


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
    if is_exported(path):
        return exported_config(path)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        config: dict[str, Any] = content["hyper_parameters"]["config"]
    except UNREADABLE as error:
        raise UserError(f"{path} is not a relformer checkpoint ({type(error).__name__}); choose another") from None
    return config


def read_world(path: Path) -> int | None:
    """How many processes trained together when a checkpoint was written; None in those of earlier versions."""
    world: int | None = torch.load(path, map_location="cpu", weights_only=True, mmap=True).get("world_size")
    return world


def run_parts(config: DictConfig) -> dict[str, Any]:
    """What makes a run what it is, wherever it is started: `RUN_KEYS`, the Trainer's part in the numbers, and a moving
    average of the weights. It is stored, so secrets are masked."""
    trainer = plain(config, "trainer")["trainer"]
    parts = {**plain(config, *RUN_KEYS), "trainer": {k: v for k, v in trainer.items() if k not in PLACE_KEYS}}
    if config.callbacks.get(EMA):
        average = plain(config.callbacks, EMA)[EMA]
        parts[EMA] = {key: value for key, value in average.items() if key != "_target_"}
    return cast(dict[str, Any], redact(parts))


def acting_callbacks(config: DictConfig) -> dict[str, Any]:
    """The callbacks that may end a run or change its numbers, with their options as they were written: early stopping,
    a divergence that stops, those from elsewhere; steps that are not skipped, and what the best is where that is
    reported, if it is not the least loss. `EMA` is among `run_parts`."""
    every = cast(dict[str, Any], OmegaConf.to_container(config.callbacks))
    kept = {name: options for name, options in every.items() if name != EMA and options and acts(options)}
    if every.get("finite_steps", ...) is None:
        kept["finite_steps"] = None
    best = every.get("best_checkpoint") or {}
    if config.eval.checkpoint == "best_val" and best.get("monitor", LOSS) != LOSS:
        kept["best_checkpoint"] = {"monitor": best["monitor"]}
    return cast(dict[str, Any], redact({"callbacks": kept} if kept else {}))


def acts(callback: Any) -> bool:
    options = callback if isinstance(callback, dict) else {}
    target = str(options.get("_target_", ""))
    return target in ENDING or bool(options.get("stop")) or not target.startswith(WATCHERS)


def step_limit(config: DictConfig) -> int | None:
    """`trainer.max_steps`; None where epochs are counted and it is none but the data's own."""
    own = OmegaConf.is_interpolation(config.trainer, "max_steps") and config.trainer.max_epochs is not None
    return None if own else cast(int, config.trainer.max_steps)


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
