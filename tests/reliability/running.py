"""A run as a process tree of its own, to be sent signals; whatever happens, nothing of it is left."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.cli.runs import TINY, WITHOUT_FIGURES, environment, losses
from tests.forks import ROOT, Forked

SMALL = (
    *TINY,
    "model.width=16",
    "model.heads=2",
    "model.encoder_layers=1",
    "model.decoder_layers=1",
    "hardware=cpu",
    "logger=csv",
    *WITHOUT_FIGURES,
)
"""Steps of milliseconds, and no figures."""
ENDLESS = (*SMALL, "trainer.max_steps=1000000", "eval.every=1000000")
SLOW = '''"""A callback that takes its time and says so."""

import time

from lightning.pytorch import Callback


class Slow(Callback):
    def __init__(self, place: str, seconds: float) -> None:
        self.place, self.seconds = place, seconds

    def wait(self, place: str) -> None:
        if place == self.place:
            print(f"slow {place}", flush=True)
            time.sleep(self.seconds)

    def on_train_batch_start(self, *_) -> None:
        self.wait("step")

    def on_validation_batch_start(self, *_) -> None:
        self.wait("validation")

    def on_test_batch_start(self, *_) -> None:
        self.wait("test")

    def on_save_checkpoint(self, *_) -> None:
        self.wait("saving")
'''


def slow(place: str, seconds: float = 0.5) -> str:
    """The override that makes a place of a run slow; `slow PLACE` is printed there."""
    return f"+callbacks.slow={{_target_: slow.Slow, place: {place}, seconds: {seconds}}}"


class Running:
    """`python train.py ...` in a session of its own, printing into a file; the run directory is `<home>/run`."""

    def __init__(self, home: Path, *arguments: str, env: Mapping[str, str] | None = None, log: str = "log") -> None:
        (home / "slow.py").write_text(SLOW)
        self.home, self.run, self.log = home, home / "run", home / log
        if not any(argument.startswith("hydra.") for argument in arguments):
            arguments = (*arguments, f"hydra.run.dir={self.run}")
        path = os.pathsep.join([str(ROOT), str(home)])
        full = environment(HOME=str(home), PYTHONPATH=path, PYTHONUNBUFFERED="1") | dict(env or {})
        self.process = Forked(arguments, home, full, self.log, self.log, script=True, session=True)
        self.pid = self.process.pid
        self.seen = {self.pid}

    def printed(self) -> str:
        return self.log.read_text()

    def until(self, condition: Callable[[], object], seconds: float = 240) -> None:
        """Wait for a condition while the process lives."""
        end = time.monotonic() + seconds
        while not condition():
            assert self.process.poll() is None, f"ended with {self.process.returncode}:\n{self.printed()}"
            assert time.monotonic() < end, f"never came there:\n{self.printed()}"
            time.sleep(0.02)

    def until_printed(self, text: str) -> None:
        self.until(lambda: text in self.printed())

    def until_step(self, step: int) -> None:
        self.until(lambda: (self.run / "csv" / "metrics.csv").exists() and max(losses(self.run), default=0) >= step)

    def children(self, containing: str, of: int | None = None) -> list[int]:
        """Children whose command line holds a text."""
        found = [pid for pid, parent, command in processes() if parent == (of or self.pid) and containing in command]
        self.seen.update(found)
        return found

    def rank(self, number: int) -> int:
        """The process of a rank, once it is there."""
        if number == 0:
            return self.pid
        found: list[int] = []
        self.until(lambda: found.extend(self.children(f"train_ddp_process_{number}")) or found)
        return found[0]

    def send(self, number: int, whom: str) -> None:
        """A signal to the `group`, or to a rank."""
        if whom == "group":
            os.killpg(self.pid, number)
        else:
            os.kill(self.rank(int(whom)), number)

    def code(self, seconds: float) -> int:
        """The exit code, once it ended; seconds later every process of it has ended too."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"did not end within {seconds} s:\n{self.printed()}") from None
        end = time.monotonic() + 30
        while (left := self.left()) and time.monotonic() < end:
            time.sleep(0.05)
        assert not left, f"left over: {left}\n{self.printed()}"
        return code

    def left(self) -> list[str]:
        """What lives of its session, of those of a sweep's jobs, and the W&B services of what it was seen to start."""
        return [
            f"{pid} {command}"
            for pid, _, command in processes()
            if session(pid) in self.seen or any(f"--pid {seen} " in f"{command} " for seen in self.seen)
        ]

    def kill(self) -> None:
        for entry in self.left():
            os.kill(int(entry.split()[0]), signal.SIGKILL)
        self.process.wait()


@contextmanager
def running(home: Path, *arguments: str, env: Mapping[str, str] | None = None, log: str = "log") -> Iterator[Running]:
    run = Running(home, *arguments, env=env, log=log)
    try:
        yield run
    finally:
        run.kill()


def processes() -> Iterator[tuple[int, int, str]]:
    """Process, parent and command line of all that live."""
    for place in Path("/proc").iterdir():
        if not place.name.isdigit():
            continue
        try:
            fields = (place / "stat").read_text().rpartition(")")[2].split()
            command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        if fields[0] not in "ZX":
            yield int(place.name), int(fields[1]), command


def session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0
