"""Commands as processes that fork off one which has imported everything: on a slow machine imports are most of a short
run. What they see is what a process of their own sees: arguments, directory, environment, session, standard streams.
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy

ROOT = Path(__file__).parents[1]
IMPORTED = (
    *("torch", "lightning.pytorch", "hydra", "wandb", "matplotlib.figure", "pyarrow", "tokenizers", "sacrebleu"),
    *("relformer.training.launch", "relformer.training.run", "relformer.training.evaluate", "relformer.translation"),
    *("relformer.export.command", "relformer.training.order_probe"),
)


class Forked:
    """`python train.py ...` if `script`, else `python -m relformer ...`, with the part of Popen that the tests use."""

    def __init__(
        self,
        arguments: tuple[str, ...],
        cwd: Path,
        env: Mapping[str, str],
        out: Path,
        error: Path,
        script: bool = False,
        session: bool = False,
    ) -> None:
        self.ended = Path(tempfile.mkdtemp()) / "code"
        self.returncode: int | None = None
        for path in (out, error):
            path.write_bytes(b"")  # what the process prints is appended
        paths = {"cwd": str(cwd), "out": str(out), "error": str(error), "ended": str(self.ended)}
        order = {"arguments": arguments, "env": dict(env), "script": script, "session": session, **paths}
        if forking().poll() is not None:
            forking.cache_clear()
        server = forking()
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(json.dumps(order) + "\n")
        server.stdin.flush()
        self.pid = int(server.stdout.readline())

    def poll(self) -> int | None:
        if self.returncode is None and self.ended.exists():
            self.returncode = int(self.ended.read_text())
            self.ended.unlink()
            self.ended.parent.rmdir()
        return self.returncode

    def wait(self, timeout: float = 300.0) -> int:
        end = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("relformer", timeout)
            time.sleep(0.01)
        return code


@cache
def forking() -> "subprocess.Popen[str]":
    """The process that forks; it ends with ours."""
    command = [sys.executable, "-m", "tests.forks"]
    server = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(server.kill)
    return server


def serve() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, whose Ctrl-C is for the tests
    for name in IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    found = [path for path in sys.path if path not in ("", str(ROOT))]
    while line := sys.stdin.readline():
        order = json.loads(line)
        if not os.fork():
            child = os.fork()
            if not child:
                obey(order, found)
            _, status = os.waitpid(child, 0)
            written = Path(order["ended"] + ".tmp")
            written.write_text(str(os.waitstatus_to_exitcode(status)))
            written.rename(order["ended"])
            os._exit(0)
        with suppress(ChildProcessError):
            while any(os.waitpid(-1, os.WNOHANG)):
                pass


def obey(order: dict[str, Any], found: list[str]) -> None:
    """Become the process that was ordered."""
    if order["session"]:
        os.setsid()
    os.write(1, f"{os.getpid()}\n".encode())
    signal.signal(signal.SIGINT, signal.default_int_handler)
    numpy.random.seed()
    for number, path in enumerate((os.devnull, order["out"], order["error"])):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        os.dup2(file, number)
        os.close(file)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    first = str(ROOT) if order["script"] else order["cwd"]
    sys.path[:] = [first, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), *found]
    importlib.invalidate_caches()
    unbuffered = "PYTHONUNBUFFERED" in os.environ
    sys.stdout.reconfigure(write_through=unbuffered, line_buffering=unbuffered)  # type: ignore[union-attr]
    sys.argv = [str(ROOT / "train.py"), *order["arguments"]]
    if order["script"]:
        runpy.run_path(sys.argv[0], run_name="__main__")
    else:
        runpy.run_module("relformer", run_name="__main__", alter_sys=True)
    sys.exit()


if __name__ == "__main__":
    serve()
