"""The ranks of a run look after one another: none waits for ever for one that died or stands still, none is left over.

Lightning starts rank 1 and up as children of rank 0 and kills rank 0 when one of them fails; here rank 0 is given the
time to say why and to close its loggers.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.distributed import DistError

from relformer.errors import RunError
from relformer.processes import LAUNCHER, launcher
from relformer.training.signals import ENDING, Interrupted, Signals, leave

TICK = 0.5
WARM_UP = 600.0
"""Seconds, at least, until the first beat: ranks start one after the other, and each builds its data."""
SLACK = 5.0
"""Seconds over the timeout, in which the rank whose data workers are stuck speaks first."""
PATIENCE = 10.0
"""Seconds in which a rank is expected to end by itself."""
ASKED = {code: number for number, code in ENDING.items()} | {-number: number for number in ENDING}
"""Exit codes of a rank that was asked to end by a signal."""
GONE = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "Socket Timeout", "NCCL")
"""What is said where another rank does not answer."""


class Watch:
    """A thread in each rank.

    Args:
        timeout: seconds without a `beat`, once there was one, after which the run ends, with the stacks of this rank on
            stderr. Time in which this process itself was stopped does not count.
        signals: of this process; its last words are said before it is ended.
    """

    def __init__(self, timeout: float, signals: Signals) -> None:
        self.timeout, self.signals = timeout, signals
        self.armed = False
        self.waited, self.limit = 0.0, max(timeout, WARM_UP)
        self.ranks: list[subprocess.Popen[bytes]] = []
        self._launcher: Any = None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, trainer: Any, workers: int) -> None:
        """Look after the ranks of a Trainer, which is about to start them, or after one and its data workers: the
        loader's own timeout does not end its wait for the tensors of a batch that is announced."""
        if (trainer.world_size == 1 and workers == 0) or self._thread is not None:
            return
        if launcher() is None and "LOCAL_RANK" not in os.environ:
            os.environ[LAUNCHER] = str(os.getpid())
        self._launcher = trainer.strategy.launcher
        self.arm()
        self._thread = threading.Thread(target=self._run, name="ranks", daemon=True)
        self._thread.start()

    def arm(self) -> None:
        """From here on beats are due."""
        self.waited, self.armed = 0.0, True

    def disarm(self) -> None:
        self.armed = False

    def beat(self) -> None:
        """Something was done."""
        self.waited, self.limit = 0.0, self.timeout

    def end(self, ended_well: bool) -> None:
        """Stop watching, and see the other ranks end: by themselves, asked to, or killed."""
        self._over.set()
        self._adopt()
        for ask, seconds in ((None, PATIENCE if ended_well else 2.0), ("terminate", PATIENCE), ("kill", PATIENCE)):
            left = [process for process in self.ranks if process.poll() is None]
            for process in left:
                if ask is not None:
                    getattr(process, ask)()
            until = time.monotonic() + seconds
            while any(process.poll() is None for process in left) and time.monotonic() < until:
                time.sleep(0.02)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Where another rank is gone: end as it was asked to, or with one sentence about it."""
        try:
            yield
        except RuntimeError as error:
            if self._launcher is None or not (isinstance(error, DistError) or any(said in str(error) for said in GONE)):
                raise
            if self.signals.received is not None:
                raise Interrupted(self.signals.received) from error
            failed = self._await_failure()
            if failed is not None and failed[1] in ASKED:
                raise Interrupted(ASKED[failed[1]]) from error
            said = " ".join(str(error).split("\n")[0].split())
            who = "another rank ended" if failed is None else told(*failed)
            raise RunError(f"{who}; what it printed says why, if anything does ({said})") from error

    def _await_failure(self) -> tuple[int, int] | None:
        until = time.monotonic() + PATIENCE
        while (found := self._failure()) is None and self.ranks and time.monotonic() < until:
            time.sleep(0.05)
        return found

    def _failure(self) -> tuple[int, int] | None:
        """The first of our children that ended badly: its rank on this machine, and its exit code."""
        self._adopt()
        codes = [(rank, process.poll()) for rank, process in enumerate(self.ranks, 1)]
        return next(((rank, code) for rank, code in codes if code), None)

    def _adopt(self) -> None:
        """Take the children over from Lightning's observer, which has the same list and sends SIGKILL."""
        procs = getattr(self._launcher, "procs", [])
        while procs:
            self.ranks.append(procs.pop(0))

    def _run(self) -> None:
        last = time.monotonic()
        failed_at: float | None = None
        while not self._over.wait(TICK):
            now = time.monotonic()
            self.waited += min(now - last, 2 * TICK)
            last = now
            if (parent := launcher()) is not None and os.getppid() != parent:
                os._exit(1)
            if self.armed and (failure := self._failure()) is not None:
                if failed_at is None:
                    failed_at = now
                    if failure[1] in ASKED and self.signals.received is None:
                        os.kill(os.getpid(), ASKED[failure[1]])
                elif now - failed_at > PATIENCE:
                    self._give_up(told(*failure))
            if self.armed and self.waited > self.limit + SLACK:
                self._give_up(
                    f"no progress for {self.limit:g} s (reliability.timeout): a rank or a data worker stands still"
                )

    def _give_up(self, why: str) -> None:
        rank = os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))
        print(f"error: {why}; rank {rank} was here:", file=sys.stderr, flush=True)
        faulthandler.dump_traceback(all_threads=True)
        if (parent := launcher()) is not None:
            time.sleep(PATIENCE)  # one that is alive says the same, and we end with it
            os.kill(parent, signal.SIGKILL)
        for process in self.ranks:
            process.kill()
        leave(1, self.signals.last_words)


def told(rank: int, code: int) -> str:
    """How a rank ended."""
    if code == -signal.SIGKILL:
        return f"rank {rank} was killed (SIGKILL; out of memory?)"
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    return f"rank {rank} ended {how}"
