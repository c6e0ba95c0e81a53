"""SLURM's warning has a job saved and requeued; it goes on in the same directory."""

import os
import signal
from pathlib import Path

import pytest

from relformer.check import reliability_faults
from relformer.launched import run_stamp
from relformer.training.slurm import requeue
from tests.cli.runs import losses
from tests.config.composed import composed
from tests.reliability.running import ENDLESS, running


@pytest.fixture
def scontrol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `scontrol` that writes down how it was called; SLURM's variables of a job with one task."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "scontrol").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/called\n')
    (folder / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        monkeypatch.delenv(name)
    for name, value in {"SLURM_JOB_ID": "4711", "SLURM_JOB_NAME": "batch", "SLURM_NTASKS": "1"}.items():
        monkeypatch.setenv(name, value)
    return tmp_path / "called"


def test_a_job_and_a_task_of_an_array(scontrol: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requeue()
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "4700")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    requeue()
    assert scontrol.read_text() == "requeue 4711\nrequeue 4700_3\n"


def test_what_slurm_refuses_is_said(
    scontrol: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (scontrol.parent / "bin" / "scontrol").write_text("#!/bin/sh\necho 'Requested operation is disabled' >&2; exit 1\n")
    requeue()
    assert "did not requeue job 4711 (Requested operation is disabled); do it by hand: scontrol requeue" in caplog.text
    monkeypatch.setenv("PATH", "")
    requeue()
    assert "No such file or directory" in caplog.text
    monkeypatch.delenv("SLURM_JOB_ID")
    requeue()


def test_a_job_that_may_restart_has_one_directory(scontrol: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_stamp(True) == "4711"
    assert run_stamp(False) != "4711"
    monkeypatch.setenv("SLURM_NTASKS", "2")
    assert run_stamp(False) == "4711"
    monkeypatch.delenv("SLURM_NTASKS")
    monkeypatch.delenv("SLURM_JOB_ID")
    assert run_stamp(True) == run_stamp(False)


def test_a_name_that_torchrun_drew_is_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WORLD_SIZE": "2", "GROUP_WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "mine"}.items():
        monkeypatch.setenv(name, value)
    assert run_stamp(False) == "mine"
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "240a1714-8032-4395-9613-c6add6741a56")
    assert run_stamp(False).endswith(f"-{os.getppid()}")


def test_to_requeue_is_to_resume() -> None:
    (fault,) = reliability_faults(composed("reliability.requeue=true"))
    assert str(fault) == "reliability.requeue=True needs resume=auto, or the job would begin afresh"
    assert not list(reliability_faults(composed("reliability.requeue=true", "resume=auto")))
    (fault,) = reliability_faults(composed("reliability.timeout=0"))
    assert "reliability.timeout=0.0 must be a positive number of seconds" in str(fault)


@pytest.mark.slow
def test_a_warned_job_goes_on_in_its_directory(tmp_path: Path, scontrol: Path) -> None:
    """Not where SLURM ends it with SIGTERM, as scancel does: that is not to start it again."""
    home = tmp_path / "home"
    home.mkdir()
    slurm = {name: os.environ[name] for name in os.environ if name.startswith("SLURM_")}
    options = (*ENDLESS, "resume=auto", "reliability.requeue=true", "paths.log_dir=runs", "hydra.job.name=train")
    with running(home, *options, env=slurm) as run:
        run.run = home / "runs" / "reverse-t5-s0" / "4711"
        run.until_step(3)
        run.send(signal.SIGUSR1, "group")
        assert run.code(30) == 143
        assert "SLURM job 4711 is requeued" in run.printed()
        stopped = max(losses(run.run)) + 1
    assert scontrol.read_text() == "requeue 4711\n"
    with running(home, *options, env=slurm, log="again") as again:
        again.run = home / "runs" / "reverse-t5-s0" / "4711"
        again.until_step(stopped + 2)
        assert f"(step {stopped})" in again.printed()
        again.send(signal.SIGTERM, "0")
        assert again.code(30) == 143
    assert scontrol.read_text() == "requeue 4711\n"
    assert not list(home.rglob("hpc_ckpt*"))
    assert sorted(losses(again.run)) == list(range(max(losses(again.run)) + 1))
