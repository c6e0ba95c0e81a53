"""Two runs in one directory: the second stops, and touches nothing; a dead one's lock is no hindrance."""

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from relformer.errors import UserError
from relformer.training.launch import launch
from relformer.training.lock import NAME, RunLock, refuse_running
from tests.cli.runs import ROOT, content, environment, relformer
from tests.reliability.running import ENDLESS, SMALL, running

HOLDER = """
import sys
from pathlib import Path
from relformer.training.lock import RunLock
lock = RunLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.readline()
lock.release()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process that holds the lock of `tmp_path`."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(PYTHONPATH=str(ROOT))
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_one_holds_it_and_says_who(tmp_path: Path, holder: "subprocess.Popen[str]") -> None:
    before = content(tmp_path)
    for _ in range(2):
        with pytest.raises(
            UserError, match=rf"is in use by another run \(process {holder.pid} on .+, since 2.+\); wait"
        ):
            refuse_running(tmp_path)
        with pytest.raises(UserError, match=r"or choose another hydra\.run\.dir"):
            RunLock(tmp_path)
    assert content(tmp_path) == before
    assert json.loads(before[NAME])["process"] == holder.pid


def test_it_is_gone_after_its_end(tmp_path: Path, holder: "subprocess.Popen[str]") -> None:
    holder.communicate("\n", timeout=120)
    assert list(tmp_path.iterdir()) == []
    refuse_running(tmp_path)
    lock = RunLock(tmp_path)
    lock.release()
    lock.release()
    assert list(tmp_path.iterdir()) == []


def test_that_of_a_killed_run_is_taken_over(
    tmp_path: Path, holder: "subprocess.Popen[str]", caplog: pytest.LogCaptureFixture
) -> None:
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    refuse_running(tmp_path)
    with caplog.at_level(logging.INFO, "relformer"):
        lock = RunLock(tmp_path)
    assert f"ended without a word (process {holder.pid} on " in caplog.text
    assert json.loads((tmp_path / NAME).read_text())["process"] == os.getpid()
    lock.release()


def test_a_file_system_without_locks_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("relformer.training.lock.fcntl.lockf", no_locks)
    RunLock(tmp_path).release()
    assert "can't be locked (Operation not supported): two runs in it would not be noticed" in caplog.text


def test_a_second_start_stops_and_touches_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holder: "subprocess.Popen[str]"
) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py"])
    before = content(tmp_path)
    for resume in ((), ("resume=auto",)):
        with pytest.raises(UserError, match="is in use by another run"):
            launch([*SMALL, f"hydra.run.dir={tmp_path}", *resume])
    assert content(tmp_path) == before


@pytest.mark.slow
def test_two_runs_in_one_directory(tmp_path: Path) -> None:
    """Of two ranks, which share it; and who only looks at the run is let in."""
    with running(tmp_path, *ENDLESS, "trainer.devices=2", "callbacks.last_checkpoint.every_n_train_steps=5") as run:
        run.until(lambda: (run.run / "checkpoints" / "last.ckpt").exists())
        for more in ((), ("resume=auto",)):
            ended = relformer(*ENDLESS, f"hydra.run.dir={run.run}", *more, cwd=tmp_path, script=True)
            assert ended.code == 2 and ended.out == ""
            assert ended.error.startswith(f"error: {run.run} is in use by another run (process {run.pid} on ")
        relformer("evaluate", str(run.run), cwd=tmp_path).succeeded()
        run.send(signal.SIGKILL, "group")
        assert run.code(20) == -signal.SIGKILL
    with running(tmp_path, *ENDLESS, "resume=auto", log="again") as again:
        again.until_printed("ended without a word")
        again.until_printed("continuing from")
        again.send(signal.SIGTERM, "0")
        assert again.code(40) == 143
        assert not (again.run / NAME).exists()
