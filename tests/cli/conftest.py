"""Runs that several tests look at, trained once."""

from pathlib import Path

import pytest

from tests.cli.runs import TINY, Ended, relformer, run_directories

RUN = (
    *TINY,
    "logger=csv",
    "model.dropout=0.1",
    "trainer.max_steps=12",
    "trainer.accumulate_grad_batches=2",
    "eval.every=4",
    "callbacks.last_checkpoint.every_n_train_steps=3",
    "callbacks.bias_heatmaps.every_n_steps=6",
)
"""Has all that a resume could get wrong: dropout, accumulated batches, validations and checkpoints on the way."""


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ended]:
    """The directory of a run by `python train.py`, and what it printed."""
    home = tmp_path_factory.mktemp("trained")
    ended = relformer(*RUN, "paths.log_dir=runs", cwd=home, script=True).succeeded()
    (run,) = run_directories(home / "runs")
    return run, ended
