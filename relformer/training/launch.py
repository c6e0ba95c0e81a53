"""From the command line to a run: overrides put in order, checked, and handed to Hydra."""

from __future__ import annotations

import logging
import os
import re
import sys
import warnings
from argparse import Namespace
from pathlib import Path
from typing import Any

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from relformer.check import check
from relformer.config import compose, conf_dir, plain, prepare
from relformer.errors import UserError
from relformer.training.resume import RUN_KEYS, checkpoint_to_resume, refuse_other_config
from relformer.training.sweep import IN_JOB, run_job, summarise_sweep

SLOT = re.compile(r"^(\+*)(decoder_encoding|cross_encoding)=")
NOISE = (
    ".*does not have many workers.*",
    ".*`isinstance\\(treespec, LeafSpec\\)` is deprecated.*",
    ".*The `srun` command is available.*",
    ".*Checkpoint directory .* exists and is not empty.*",
    ".*You called `self.log.*",
    ".*lr_scheduler.step.*",
    ".*barrier\\(\\): using the device under current context.*",
)


def launch(arguments: list[str]) -> None:
    """Check the arguments as a configuration, then run Hydra's entry point with them.

    Raises:
        UserError: anything wrong with the configuration; nothing was written.
    """
    parsed = get_args_parser().parse_intermixed_args(arguments)
    overrides = [SLOT.sub(r"\1encoding@\2=", override) for override in parsed.overrides]
    overrides = ["~encoding@decoder_encoding" if o == "encoding@decoder_encoding=null" else o for o in overrides]
    sys.argv = [sys.argv[0], *flags(parsed), *overrides]
    prepare(parsed.config_dir)
    if asks_only(parsed):
        entry()
        return
    config = compose(overrides)
    if parsed.multirun or config.hydra.mode == RunMode.MULTIRUN:
        refuse_torchrun_sweep()
        try:
            entry()
        finally:
            summarise_sweep(Path(config.hydra.sweep.dir))
    else:
        check(config)
        refuse_occupied(config)
        quiet()
        entry()


def asks_only(parsed: Namespace) -> bool:
    """Whether a flag asks Hydra to print something instead of running."""
    names = ("help", "hydra_help", "version", "cfg", "info", "shell_completion")
    return any(getattr(parsed, name, None) for name in names)


def refuse_torchrun_sweep() -> None:
    if "TORCHELASTIC_RUN_ID" in os.environ:
        raise UserError("a sweep starts its own processes and can't run under torchrun; run python train.py -m ...")


def refuse_occupied(config: DictConfig) -> None:
    """A run directory must be free, or hold this very run to continue; Hydra writes into it before training starts."""
    if "LOCAL_RANK" in os.environ:
        return
    checkpoint = checkpoint_to_resume(config.resume, Path(config.hydra.run.dir))
    if checkpoint is not None:
        refuse_other_config(checkpoint, plain(config, *RUN_KEYS))


def flags(parsed: Namespace) -> list[str]:
    """The flags alone: they must stand before the overrides, or rank 1 can't read its command line."""
    found = []
    for action in get_args_parser()._actions:
        value = getattr(parsed, action.dest, None)
        if not action.option_strings or value in (None, False, action.default):
            continue
        found += [action.option_strings[-1]] if value is True else [action.option_strings[-1], str(value)]
    return found


def carried_flags() -> list[str]:
    """The flags a sweep hands to its jobs: all but the one that made it a sweep."""
    end = next((n for n, a in enumerate(sys.argv[1:], 1) if "=" in a), len(sys.argv))
    return [flag for flag in sys.argv[1:end] if flag not in ("--multirun", "-m")]


@hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name="train")
def entry(config: DictConfig) -> Any:
    if HydraConfig.get().mode == RunMode.MULTIRUN:
        if IN_JOB in os.environ:
            raise UserError("a job of a sweep can't start a sweep")
        return run_job(carried_flags())
    from relformer.training.run import train

    OmegaConf.set_readonly(config, True)
    return train(config)


def quiet() -> None:
    """Leave out what Lightning says on every run; its import sets its own level."""
    import lightning.pytorch  # noqa: F401

    for name in ("lightning", "lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    for message in NOISE:
        warnings.filterwarnings("ignore", message)
