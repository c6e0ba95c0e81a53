"""Runs as processes of a session of their own, so that whatever they leave behind can be found."""

import os
import signal
import time
from pathlib import Path

from tests.cli.runs import Ended, environment
from tests.forks import Forked

ENDS_WITHIN = 120.0
"""Seconds that the last rank has to follow the first."""


class Started:
    """`python train.py ...`, in the background; `fault` is for RELFORMER_FAULT."""

    def __init__(self, *arguments: str, cwd: Path, fault: str | None = None) -> None:
        self.said = cwd / "said.txt"
        env = environment(HOME=str(cwd), **({"RELFORMER_FAULT": fault} if fault else {}))
        self.process = Forked(arguments, cwd, env, self.said, self.said, script=True, session=True)

    def signalled(self, number: int, group: bool = False) -> None:
        (os.killpg if group else os.kill)(self.process.pid, number)

    def ended(self, timeout: float = 300.0) -> Ended:
        """Wait for it and for all that it started; ends what is left, and fails."""
        try:
            code = self.process.wait(timeout)
            wait_for_none(self.process.pid)
        finally:
            left = session_members(self.process.pid)
            for process in left:
                os.kill(process, signal.SIGKILL)
        assert not left, f"processes left behind: {left}\n{self.said.read_text()}"
        return Ended(code, self.said.read_text(), "")


def wait_for_none(session: int) -> None:
    """Until nobody is left of a session, or for long enough."""
    end = time.monotonic() + ENDS_WITHIN
    while session_members(session) and time.monotonic() < end:
        time.sleep(0.1)


def session_members(session: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, sid = (place / "stat").read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(sid) == session and state != "Z":
            found.append(int(place.name))
    return found
