"""What ends a sweep ends its job and its ranks, which save; what ends a job ends no sweep."""

import os
import signal
from pathlib import Path

import pytest

from tests.cli.runs import losses, metrics, run_directories
from tests.reliability.running import ENDLESS, SMALL, Running, running, slow
from tests.reliability.test_signals import kept

SWEEP = ("trainer.devices=2", "seed=1,2", "-m", "hydra.sweep.dir=sweep")


def job(sweep: Running, number: int) -> tuple[Path, int]:
    """Directory and process of a job that trains."""
    folder = sweep.home / "sweep" / f"{number}_reverse-t5-s{number + 1}"
    sweep.until(lambda: (folder / "csv" / "metrics.csv").exists() and max(losses(folder), default=0) >= 3)
    (process,) = sweep.children("hydra.mode=RUN")
    assert sweep.children("train_ddp_process_1", of=process)
    return folder, process


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_sweep_ends_its_job(tmp_path: Path, number: int, code: int) -> None:
    """A sweep that is killed can't wait for it: the job saves and ends all the same."""
    with running(tmp_path, *ENDLESS, *SWEEP) as sweep:
        folder, _ = job(sweep, 0)
        sweep.send(number, "group")
        assert sweep.code(40) == code
        assert kept(folder) == max(losses(folder)) + 1
        assert not (tmp_path / "sweep" / "1_reverse-t5-s2").exists()


@pytest.mark.slow
def test_a_killed_job_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    with running(tmp_path, *SMALL, *SWEEP, "trainer.max_steps=20", "eval.every=20", slow("step", 0.1)) as sweep:
        folder, process = job(sweep, 0)
        os.kill(process, signal.SIGKILL)
        assert sweep.code(300) == 1
        assert f"sweep job 0 was killed by SIGKILL; see {folder}" in sweep.printed()
        assert [metrics(run)["config"]["seed"] for run in run_directories(tmp_path / "sweep")] == [2]
