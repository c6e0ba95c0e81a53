"""Jobs of a cluster, by submitit's executor that runs them here."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from relformer.errors import UserError
from relformer.sweeps.cluster import Submitted, submit
from relformer.sweeps.job import Job

pytest.importorskip("submitit")


def submitted(home: Path, code: str, **options: object) -> tuple[Job, Submitted]:
    job = Job(0, [], [], home / "run", "key", "val/iid/loss", cpu=True)
    return job, submit(job, [sys.executable, "-c", code], {"MINE": "here"}, "local", options)


def ended(handle: Submitted) -> int:
    end = time.monotonic() + 120
    while (code := handle.poll()) is None:
        assert time.monotonic() < end
        time.sleep(0.1)
    return code


def test_a_job_has_its_exit_code_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    job, handle = submitted(tmp_path, "import os; print(os.environ['MINE'], flush=True); raise SystemExit(3)")
    assert ended(handle) == 3
    assert job.log is not None and "here" in job.log.read_text()


def test_an_interrupted_job_ends_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked, and may take a while to save."""
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    code = (
        "import pathlib, signal, sys, time\n"
        f"saved = pathlib.Path({str(tmp_path / 'saved')!r})\n"
        "signal.signal(signal.SIGTERM, lambda *_: (time.sleep(2), saved.touch(), sys.exit(143)))\n"
        f"pathlib.Path({str(tmp_path / 'begun')!r}).touch()\n"
        "time.sleep(600)\n"
    )
    _, handle = submitted(tmp_path, code)
    end = time.monotonic() + 120
    while not (tmp_path / "begun").exists() and time.monotonic() < end:
        time.sleep(0.1)
    handle.end(signal.SIGINT)
    assert ended(handle) == 143 and (tmp_path / "saved").exists()


def test_what_submitit_does_not_know_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"submitit can't submit to sweep.cluster=local: .*wall_time"):
        submitted(tmp_path, "", wall_time=3)


def test_without_slurm_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    job = Job(0, [], [], tmp_path / "run", "key", "val/iid/loss", cpu=True)
    with pytest.raises(UserError, match=r"sweep\.cluster=slurm"):
        submit(job, ["true"], {}, "slurm", None)


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(UserError, match=r"pip install 'relformer\[slurm\]'"):
        submitted(tmp_path, "")
