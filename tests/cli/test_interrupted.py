"""Ctrl-C and SIGTERM end every command with their code and without a traceback, whatever it is doing."""

import signal
import subprocess
import sys

import pytest

from relformer import cli
from tests.cli.runs import ROOT, environment

SWALLOWED = """
import os, signal
from relformer.training.signals import ending_at_once
signal.signal(signal.SIGHUP, signal.SIG_IGN)
with ending_at_once():
    os.kill(os.getpid(), signal.SIGHUP)
    try:  # as a library does that looks whether another is there
        os.kill(os.getpid(), {number})
    except BaseException:
        pass
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_within_an_import(number: int, code: int) -> None:
    command = [sys.executable, "-c", SWALLOWED.format(number=int(number))]
    done = subprocess.run(command, env=environment(PYTHONPATH=str(ROOT)), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


@pytest.mark.parametrize("command", ["report", "evaluate", "compare", "probe", "train"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_while_a_command_works(monkeypatch: pytest.MonkeyPatch, command: str, number: int, code: int) -> None:
    """Even where Lightning would end with a code of its own at a KeyboardInterrupt."""

    def work(arguments: list[str]) -> None:
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            sys.exit(1)

    before = signal.getsignal(number)
    monkeypatch.setitem(cli.COMMANDS, command, work)
    monkeypatch.setattr(sys, "argv", ["relformer", command, "a=b"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == code and signal.getsignal(number) is before
