"""Twenty kills at random moments over ten runs or more: every run ends as if there had been none. Minutes.

What is asked of a killed run is only that all its processes end, and that it can be continued.
"""

import random
import signal
import time
from pathlib import Path

import pytest

from relformer.training.sealing import damage
from tests.reliability.processes import Started
from tests.reliability.tiny import TINY, rows, state, unequal

pytestmark = pytest.mark.slow

KILLS, RUNS, PER_RUN = 20, 10, 2
STEPS = 60
OPTIONS = (*TINY, f"trainer.max_steps={STEPS}", "data.workers=1")
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


def reached(run: Path) -> int:
    """The last step in the log."""
    try:
        return max((step for step, _ in rows(run)), default=0)
    except (OSError, TypeError, ValueError):  # none yet, or a row half written
        return 0


def killed(started: Started, run: Path, chance: random.Random) -> bool:
    """Send a signal to one process or the group, one time in four before training has begun, else within a step that is
    still to come or behind the last one; False where the run was over first."""
    number, aim = chance.choice(SIGNALS), chance.randint(min(reached(run) + 1, STEPS), STEPS)
    early = chance.random() < 0.25
    while not early and started.process.poll() is None and reached(run) < aim - 1:  # steps in the log count from 0
        time.sleep(0.01)
    time.sleep(chance.uniform(0, 4 if early else 0.3))
    if started.process.poll() is not None:
        return False
    if chance.random() < 0.5:
        started.signalled(number, group=True)
    else:
        started.signalled(number)
    code = started.ended().code
    assert code != 0 or (run / "metrics.json").exists()
    return code != 0


def test_twenty_random_kills(tmp_path: Path) -> None:
    chance, kills, runs = random.Random(0), 0, 0
    whole = tmp_path / "whole"
    Started(*OPTIONS, f"hydra.run.dir={whole}", cwd=tmp_path).ended().succeeded()
    while kills < KILLS or runs < RUNS:
        runs += 1
        run = tmp_path / f"run{runs}"
        command = (*OPTIONS, f"hydra.run.dir={run}", "resume=auto")
        for _ in range(PER_RUN):
            kills += killed(Started(*command, cwd=tmp_path), run, chance)
            for path in run.glob("checkpoints/[!.]*.ckpt"):  # what was half written is removed at the next start
                assert damage(path) is None and state(path), path
        Started(*command, cwd=tmp_path).ended().succeeded()
        assert unequal(rows(run), rows(whole)) == []
        for name in ("last.ckpt", "previous.ckpt", "best.ckpt"):
            assert unequal(state(run / "checkpoints" / name), state(whole / "checkpoints" / name)) == [], (runs, name)
        assert not list(run.rglob("*.tmp*"))
        print(f"run {runs}: {kills} kills so far")
        assert runs < 3 * RUNS, "most runs are over before they are killed"
