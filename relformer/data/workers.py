"""The processes that prepare batches: what signals mean to them, and what is said when one fails."""

from __future__ import annotations

import atexit
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import active_children
from traceback import walk_tb

from relformer.errors import RunError
from relformer.processes import end_with_parent

DEAD = re.compile(r"DataLoader worker \(pid(?:\(s\))? ([\d, ]+)\) (?:is killed by signal: (\w+)|exited unexpectedly)")
LATE = re.compile(r"DataLoader timed out after (\d+)")
TORN = (ConnectionError, EOFError, FileNotFoundError)
READS = ("dataloader.py", "reductions.py", "resource_sharer.py")


def follow(worker: int) -> None:
    """For `worker_init_fn`. What ends the run is for its main process to decide, which needs its batches until then;
    signals to a whole group reach the workers as well. They end with it, however it ends."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    end_with_parent(signal.SIGKILL)


@contextmanager
def workers_explained(count: int) -> Iterator[None]:
    """One sentence where a worker of `count` died or does not answer; what it raised itself keeps its traceback."""
    try:
        yield
    except (RuntimeError, *TORN) as error:
        text = str(error)
        if late := LATE.search(text):
            raise RunError(
                f"no batch came from the data workers for {late[1]} s (reliability.timeout): a disk or a network that "
                "hangs? Lower data.workers or raise reliability.timeout, then go on with resume=auto"
            ) from error
        dead = DEAD.search(text)
        torn = isinstance(error, TORN) and any(
            os.path.basename(frame.f_code.co_filename) in READS for frame, _ in walk_tb(error.__traceback__)
        )
        if dead is None and not (count and torn):
            raise
        who = f" (process {dead[1].strip()}{', ' + dead[2] if dead[2] else ''})" if dead else ""
        raise RunError(
            f"a worker that prepares batches was killed{who}: out of memory? Lower data.workers={count}, then go on "
            "with resume=auto"
        ) from error


@atexit.register
def end_workers() -> None:
    """At the interpreter's end, where Python would wait for one that hangs."""
    if workers := active_children():
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch's handler raises
        for worker in workers:
            worker.kill()
