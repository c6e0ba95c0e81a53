"""From the command line to a run: overrides put in order, checked, and handed to Hydra."""

from __future__ import annotations

import logging
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
from relformer.config import compose, conf_dir, prepare, read_overrides, slots_chosen
from relformer.errors import UserError
from relformer.files import remove_leftovers
from relformer.launched import rank_overrides
from relformer.processes import is_first_rank
from relformer.redaction import redact_hydra
from relformer.sweeps.job import refuse_alone, run_key
from relformer.training.disk import made_writable
from relformer.training.lock import RunLock, refuse_running
from relformer.training.matching import keep_match, matching_overrides
from relformer.training.resume import refuse_occupied, where_to_start

NOISE = (
    ".*does not have many workers.*",
    ".*`isinstance\\(treespec, LeafSpec\\)` is deprecated.*",
    ".*The `srun` command is available.*",
    ".*Checkpoint directory .* exists and is not empty.*",
    ".*You called `self.log.*",
    ".*It is recommended to use `self.log.*",
    ".*lr_scheduler.step.*",
    ".*returned a view tensor.*",
    ".*WeightAveraging callback with a model that overrides.*",
    ".*barrier\\(\\): using the device under current context.*",
)


class PastHydra(BaseException):
    """A run's fault on its way to the command line: Hydra would print all overrides before the one sentence."""

    def __init__(self, fault: UserError) -> None:
        self.fault = fault


def launch(arguments: list[str]) -> None:
    """Check the arguments as a configuration, then run Hydra's entry point with them.

    Raises:
        UserError: anything wrong with the configuration; nothing was written.
    """
    parsed = get_args_parser().parse_intermixed_args(arguments)
    overrides = slots_chosen(parsed.overrides)
    sys.argv = [sys.argv[0], *flags(parsed), *overrides, *rank_overrides()]
    prepare(parsed.config_dir)
    OmegaConf.register_new_resolver("run_key", run_key, replace=True)
    config = compose(overrides)
    if asks_only(parsed):
        entry()
        return
    if parsed.multirun or config.hydra.mode == RunMode.MULTIRUN:
        from relformer.sweeps.command import run_sweep

        run_sweep(config, [flag for flag in flags(parsed) if flag not in ("--multirun", "-m")], overrides)
    else:
        refuse_sweep(overrides)
        refuse_alone(config)
        quiet()
        check(config)
        asked = config
        if config.match is not None:
            more, sentence = matching_overrides(config)
            print(sentence)
            overrides += more
            sys.argv += more
            config = compose(overrides)
        lock = prepare_directory(config) if is_first_rank() else None
        try:
            if lock is not None:
                keep_match(asked)
            entry()
        except PastHydra as passed:
            raise passed.fault from None
        finally:
            if lock is not None:
                lock.release()


def asks_only(parsed: Namespace) -> bool:
    """Whether a flag asks Hydra to print something instead of running."""
    names = ("help", "hydra_help", "version", "cfg", "info", "shell_completion")
    return any(getattr(parsed, name, None) for name in names)


def refuse_sweep(overrides: list[str]) -> None:
    for override in read_overrides(overrides):
        if override.is_sweep_override():
            raise UserError(f"{override.input_line} lists several values: add -m to run them all, or choose one")


def prepare_directory(config: DictConfig) -> RunLock:
    """Refuse a directory that holds another run, and make and lock a free one: Hydra writes into it before training
    starts.

    Raises:
        UserError: it is taken or in use, holds a checkpoint of other options, or can't be made.
    """
    directory = Path(config.hydra.run.dir)
    refuse_running(directory)
    refuse_occupied(config.resume, directory)
    start = where_to_start(config.resume, directory)
    if start.checkpoint is not None:
        from relformer.training.differences import changes_of

        changes_of(start.checkpoint, config)
    elif config.init_from is not None:
        from relformer.training.initialise import check_initialisation

        check_initialisation(config)
    made_writable(directory)
    if config.logger.get("name") == "wandb":
        made_writable(Path(config.paths.log_dir))
    try:
        lock = RunLock(directory)
    except OSError as error:
        raise UserError(f"the run directory {directory} can't be locked: {error.strerror}; set paths.log_dir") from None
    try:
        refuse_occupied(config.resume, directory)  # by one that began since, and has ended
    except UserError:
        lock.release()
        raise
    remove_leftovers(directory)
    return lock


def flags(parsed: Namespace) -> list[str]:
    """The flags alone: they must stand before the overrides, or rank 1 can't read its command line."""
    found = []
    for action in get_args_parser()._actions:
        value = getattr(parsed, action.dest, None)
        if not action.option_strings or value in (None, False, action.default):
            continue
        found += [action.option_strings[-1]] if value is True else [action.option_strings[-1], str(value)]
    return found


@hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name="train")
def entry(config: DictConfig) -> Any:
    job = HydraConfig.get()
    if is_first_rank():
        redact_hydra(Path(job.runtime.output_dir))
    from relformer.training.run import train

    OmegaConf.set_readonly(config, True)
    try:
        return train(config)
    except UserError as fault:
        raise PastHydra(fault) from None


def quiet() -> None:
    """Leave out what Lightning says on every run; its import sets its own level."""
    import lightning.pytorch  # noqa: F401

    for name in ("lightning", "lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    for message in NOISE:
        warnings.filterwarnings("ignore", message)
