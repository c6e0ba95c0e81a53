"""A rank, or a worker, that dies or stands still: the run ends, soon and with words, and nothing is left."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch.utils.data import DataLoader, Dataset

from relformer.data.workers import follow, workers_explained
from relformer.errors import RunError
from relformer.processes import LAUNCHER
from relformer.training.ranks import Watch, told
from relformer.training.signals import Interrupted, Signals
from tests.reliability.running import ENDLESS, running

TWO = (*ENDLESS, "trainer.devices=2")


@pytest.mark.slow
@pytest.mark.parametrize("whom", [0, 1])
def test_a_killed_rank_ends_the_other(tmp_path: Path, whom: int) -> None:
    with running(tmp_path, *TWO, "data.workers=1") as run:
        run.until_step(3)
        run.rank(1)
        began = time.monotonic()
        run.send(signal.SIGKILL, str(whom))
        code = run.code(30)
        print(f"{time.monotonic() - began:.1f} s")
        assert code == (-signal.SIGKILL if whom == 0 else 1)
        if whom == 1:
            assert "error: rank 1 was killed (SIGKILL; out of memory?)" in run.printed()


@pytest.mark.slow
def test_a_rank_that_dies_before_they_meet(tmp_path: Path) -> None:
    with running(tmp_path, *TWO) as run:
        run.send(signal.SIGKILL, "1")
        assert run.code(40) == 1
        assert "error: rank 1 was killed" in run.printed()


@pytest.mark.slow
@pytest.mark.parametrize("whom", ["0", "1"])
def test_a_frozen_rank_ends_the_run_with_the_stacks_of_the_other(tmp_path: Path, whom: str) -> None:
    with running(tmp_path, *TWO, "reliability.timeout=5") as run:
        run.until_step(3)
        run.rank(1)
        began = time.monotonic()
        run.send(signal.SIGSTOP, whom)
        code = run.code(60)
        print(f"{time.monotonic() - began:.1f} s")
        assert code == (1 if whom == "1" else -signal.SIGKILL)
        printed = run.printed()
        assert "error: no progress for 5 s (reliability.timeout): a rank or a data worker stands still; rank" in printed
        assert "most recent call first" in printed and "training_epoch_loop.py" in printed


@pytest.mark.slow
def test_a_killed_worker_is_named(tmp_path: Path) -> None:
    with running(tmp_path, *ENDLESS, "data.workers=2") as run:
        run.until_step(3)
        os.kill(run.children("train.py")[0], signal.SIGKILL)
        assert run.code(30) == 1
        assert "error: a worker that prepares batches was killed" in run.printed()
        assert "Lower data.workers=2, then go on with resume=auto" in run.printed()
        assert "Traceback" not in run.printed()


@pytest.mark.slow
def test_a_frozen_worker_ends_the_run(tmp_path: Path) -> None:
    with running(tmp_path, *ENDLESS, "data.workers=1", "reliability.timeout=5") as run:
        run.until_step(3)
        os.kill(run.children("train.py")[0], signal.SIGSTOP)
        assert run.code(60) == 1
        assert "error: no" in run.printed() and " 5 s (reliability.timeout)" in run.printed()


class Numbers(Dataset[int]):
    """Does what it is told at number 1."""

    def __init__(self, deed: str) -> None:
        self.deed = deed

    def __len__(self) -> int:
        return 4

    def __getitem__(self, number: int) -> int:
        if number == 1 and self.deed == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if number == 1 and self.deed == "sleeps":
            time.sleep(60)
        if number == 1 and self.deed == "raises":
            raise ValueError("a bad line")
        if number == 1 and self.deed == "is signalled":
            for each in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
                os.kill(os.getpid(), each)
        return number


def read(deed: str) -> list[int]:
    loader = DataLoader(Numbers(deed), batch_size=None, num_workers=1, timeout=1, worker_init_fn=follow)
    with workers_explained(1):
        return [int(number) for number in loader]


@pytest.mark.parametrize(
    ("deed", "message"),
    [
        ("dies", r"a worker that prepares batches was killed \(process \d+.*\): out of memory\? Lower data.workers=1"),
        ("sleeps", r"no batch came from the data workers for 1 s \(reliability.timeout\)"),
    ],
)
def test_a_failing_worker_is_one_sentence(deed: str, message: str) -> None:
    with pytest.raises(RunError, match=message):
        read(deed)


def test_a_worker_hears_no_signal_and_keeps_the_traceback_of_its_own_faults() -> None:
    assert read("is signalled") == [0, 1, 2, 3]
    with pytest.raises(ValueError, match=r"a bad line"):
        read("raises")


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The codes with which the process would have been ended from a thread, which stands still there."""
    codes: list[int] = []

    def end(code: int) -> None:
        codes.append(code)
        threading.Event().wait()

    monkeypatch.setattr("os._exit", end)
    monkeypatch.setattr("relformer.training.ranks.SLACK", 0.0)
    monkeypatch.setattr("relformer.training.ranks.TICK", 0.05)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    monkeypatch.setenv(LAUNCHER, "")
    monkeypatch.delenv(LAUNCHER)
    yield codes


def watched(timeout: float, ranks: int = 2, workers: int = 0, beats: bool = True) -> Watch:
    watch = Watch(timeout, Signals())
    watch.start(
        SimpleNamespace(world_size=ranks, strategy=SimpleNamespace(launcher=SimpleNamespace(procs=[]))), workers
    )
    if beats:
        watch.beat()
    return watch


def wait_for(codes: list[int], seconds: float) -> list[int]:
    end = time.monotonic() + seconds
    while not codes and time.monotonic() < end:
        time.sleep(0.01)
    return codes


def test_no_beat_within_the_time_ends_the_rank(ended: list[int], capfd: pytest.CaptureFixture[str]) -> None:
    watch = watched(0.3)
    for _ in range(10):
        time.sleep(0.1)
        watch.beat()
    assert not ended
    assert wait_for(ended, 5) == [1]
    said = capfd.readouterr().err
    assert "no progress for 0.3 s (reliability.timeout)" in said and "in wait_for" in said


def test_one_rank_with_workers_is_watched(ended: list[int]) -> None:
    watched(0.1, ranks=1, workers=1)
    assert wait_for(ended, 5) == [1]


def test_none_is_due_of_one_rank_or_while_none_is_expected(ended: list[int]) -> None:
    alone, resting, starting = watched(0.1, ranks=1), watched(1.0), watched(0.1, beats=False)
    resting.disarm()
    assert not wait_for(ended, 2)
    assert not any(thread.name == "ranks" for thread in threading.enumerate() if alone._thread is thread)
    resting.end(True)
    starting.end(True)


def test_time_in_which_the_process_was_stopped_does_not_count(
    ended: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock runs on while a job is suspended."""
    watch, real, slept = watched(2.0), time.monotonic, [0.0]
    monkeypatch.setattr("relformer.training.ranks.time.monotonic", lambda: real() + slept[0])
    time.sleep(0.2)
    slept[0] = 3600.0
    time.sleep(0.3)
    assert not ended and watch.waited < 1
    watch.end(True)


@pytest.mark.parametrize(
    ("failure", "expected"),
    [((1, 143), Interrupted), ((1, -2), Interrupted), ((1, -9), RunError), ((2, 3), RunError), (None, RunError)],
)
def test_a_lost_connection_is_explained(
    ended: list[int], monkeypatch: pytest.MonkeyPatch, failure: tuple[int, int] | None, expected: type[BaseException]
) -> None:
    watch: Any = watched(60)
    monkeypatch.setattr(watch, "_await_failure", lambda: failure)
    with pytest.raises(expected) as raised, watch.explained():
        raise RuntimeError("[gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:4242")
    if failure == (1, -2):
        assert raised.value.code == 130  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="shapes"), watch.explained():
        raise RuntimeError("shapes do not match")
    watch.end(True)


def test_how_a_rank_ended() -> None:
    assert told(1, -9) == "rank 1 was killed (SIGKILL; out of memory?)"
    assert told(1, -11) == "rank 1 ended by SIGSEGV"
    assert told(3, 2) == "rank 3 ended with exit code 2"
