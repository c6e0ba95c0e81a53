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
OPTIONS = (*TINY, "trainer.max_steps=60", "data.workers=1")
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


def training_begins(started: Started, run: Path) -> None:
    """Wait for a row of figures that was not there, or for the end."""
    csv = run / "csv" / "metrics.csv"
    before = csv.stat().st_size if csv.exists() else 0
    while started.process.poll() is None and not (csv.exists() and csv.stat().st_size > before):
        time.sleep(0.01)


def killed(started: Started, run: Path, seconds: float, chance: random.Random) -> bool:
    """Send a signal to one process or the group, up to `seconds` after training has begun, one time in four before
    that; False where the run was over first."""
    number = chance.choice(SIGNALS)
    if chance.random() < 0.25:
        time.sleep(chance.uniform(0, seconds))
    else:
        training_begins(started, run)
        time.sleep(chance.uniform(0, seconds))
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
    first = Started(*OPTIONS, f"hydra.run.dir={whole}", cwd=tmp_path)
    training_begins(first, whole)
    began = time.monotonic()
    first.ended().succeeded()
    seconds = 0.8 * (time.monotonic() - began)
    while kills < KILLS or runs < RUNS:
        runs += 1
        run = tmp_path / f"run{runs}"
        command = (*OPTIONS, f"hydra.run.dir={run}", "resume=auto")
        for _ in range(PER_RUN):
            kills += killed(Started(*command, cwd=tmp_path), run, seconds, chance)
            for path in run.glob("checkpoints/*.ckpt"):
                assert damage(path) is None and state(path), path
        Started(*command, cwd=tmp_path).ended().succeeded()
        assert unequal(rows(run), rows(whole)) == []
        for name in ("last.ckpt", "previous.ckpt", "best.ckpt"):
            assert unequal(state(run / "checkpoints" / name), state(whole / "checkpoints" / name)) == [], (runs, name)
        assert not list(run.rglob("*.tmp*"))
        print(f"run {runs}: {kills} kills so far")
        assert runs < 3 * RUNS, "most runs are over before they are killed"
