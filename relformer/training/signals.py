"""What a signal does to a run: it ends where nothing is lost, with 143 (SIGTERM; SIGUSR1, SLURM's warning before the
time is up), 130 (Ctrl-C) or 129 (the terminal is gone).

While training steps are made a signal only leaves a mark, and all ranks end together behind the step. Elsewhere there
is nothing to save, and the process ends where it stands. A second Ctrl-C ends it at once, whatever it is doing.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

ENDING = {signal.SIGINT: 130, signal.SIGHUP: 129, signal.SIGTERM: 143, signal.SIGUSR1: 143}
"""Exit codes. Where ranks received different ones, the last of this list counts."""
REPEATED = 0.5
"""Seconds between two Ctrl-C that are two: wrappers pass on what the terminal has sent to all already."""
DEAF = 3.0
"""Seconds after which a process has not noticed a signal, since it waits in C, for another rank or the network."""
CLOSING = 60.0
"""Seconds a process may take to end where it stands."""
LAST_WORDS = 5.0


class Interrupted(SystemExit):
    """A signal ends the run."""

    def __init__(self, number: int) -> None:
        super().__init__(ENDING[signal.Signals(number)])
        self.number = signal.Signals(number)


class Signals:
    """The handlers, in place within a `with` on the main thread; a signal that is ignored at its start stays so."""

    def __init__(self) -> None:
        self.received: int | None = None
        self.held = False
        """Whether a signal leaves its mark only."""
        self.last_words: Callable[[int], object] = bool
        """Called with the exit code where the process must end from outside the main thread."""
        self._previous: dict[signal.Signals, Any] = {}
        self._left = threading.Event()

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            self._left.clear()
            self._previous = {
                number: signal.signal(number, self._receive)
                for number in ENDING
                if signal.getsignal(number) is not signal.SIG_IGN
            }
            reader, self._writer = os.pipe()
            os.set_blocking(self._writer, False)
            self._previous_wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
            threading.Thread(target=self._listen, args=(reader,), name="signals", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self.received, self.held = None, False
        if self._previous:
            signal.set_wakeup_fd(self._previous_wakeup)
            os.close(self._writer)
            for number, handler in self._previous.items():
                signal.signal(number, handler)
            self._previous = {}

    def hold(self) -> None:
        """From here on a signal leaves its mark only."""
        self.held = True

    def release(self) -> None:
        """From here on a signal ends the process where it stands; so does one that was received before."""
        self.held = False
        if self.received is not None:
            raise Interrupted(self.received)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.received is None:
            self.received = number
            if not self.held:
                raise Interrupted(number)

    def _listen(self, reader: int) -> None:
        """In a thread of its own, which hears signals even while the main one waits in C."""
        first: float | None = None
        told = False
        while data := os.read(reader, 1):
            if (number := data[0]) not in ENDING:
                continue
            now = time.monotonic()
            if number == signal.SIGINT and first is not None and now - first > REPEATED:
                os._exit(ENDING[signal.SIGINT])
            if number == signal.SIGINT and first is None:
                first = now
            if not told:
                told = True
                if self.held and os.environ.get("LOCAL_RANK", "0") == "0":
                    name = signal.Signals(number).name
                    print(f"{name}: finishing the step; Ctrl-C twice ends at once", file=sys.stderr, flush=True)
                if not self.held:
                    threading.Thread(target=self._insist, args=(number,), daemon=True).start()
        os.close(reader)

    def _insist(self, number: int) -> None:
        """End a process that is not ending."""
        if self._left.wait(DEAF):
            return
        if self.received is not None:
            if self._left.wait(CLOSING - DEAF):
                return
            faulthandler.dump_traceback(all_threads=True)
        leave(ENDING[signal.Signals(number)], self.last_words)


def leave(code: int, last_words: Callable[[int], object] = bool) -> NoReturn:
    """End the process from any thread, however stuck the main one is."""
    speaking = threading.Thread(target=last_words, args=(code,), daemon=True)
    speaking.start()
    speaking.join(LAST_WORDS)
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Within this, while nothing has begun, a signal ends the process on the spot: in the midst of an import an
    exception may be swallowed, or leave a library half made."""
    before = {number: signal.getsignal(number) for number in ENDING}
    heard = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in heard:
        signal.signal(number, lambda received, frame: os._exit(ENDING[signal.Signals(received)]))
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, before[number])


signals = Signals()
"""Of this process, as signals are."""
