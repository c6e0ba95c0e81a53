"""A run from its beginning to its end, however it ends: with words, an exit code, and nothing left behind."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGUSR1

from omegaconf import DictConfig

from relformer.data.workers import workers_explained
from relformer.processes import is_first_rank
from relformer.training.callbacks.out_of_memory import memory_explained
from relformer.training.loggers import finish
from relformer.training.ranks import Watch
from relformer.training.sealing import LAST, read_step
from relformer.training.signals import Interrupted, signals
from relformer.training.slurm import requeue

logger = logging.getLogger("relformer")


@contextmanager
def guarded(config: DictConfig) -> Iterator[Watch]:
    """Explain faults that are none of the code, say how an interrupted run goes on, have SLURM start it again where
    that was asked for; then end the other ranks and tell W&B the exit code."""
    exit_code = 1
    signals.last_words = finish
    watch = Watch(config.reliability.timeout, signals)
    try:
        with watch.explained(), workers_explained(config.data.workers), memory_explained():
            yield watch
        exit_code = 0
    except Interrupted as interrupted:
        exit_code = int(interrupted.code or 0)
        if is_first_rank():
            say_interrupted(Path(config.paths.run_dir), interrupted)
            if interrupted.number == SIGUSR1 and config.reliability.requeue:
                requeue()
        raise
    finally:
        watch.end(exit_code == 0)
        finish(exit_code)


def say_interrupted(run_dir: Path, interrupted: Interrupted) -> None:
    """Where an interrupted run stands, and how it goes on."""
    last = run_dir / "checkpoints" / LAST
    kept = f"step {read_step(last)} is kept" if last.exists() else "no checkpoint was written yet"
    logger.info("interrupted by %s; %s", interrupted.number.name, kept)
    logger.info("go on with the same command and   resume=auto hydra.run.dir=%s", run_dir)
