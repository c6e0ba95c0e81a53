"""The tutorial runs from top to bottom, quickly, and what it says is so."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.runs import ROOT, environment

TUTORIAL = Path(__file__).with_name("tutorial.py")
SECONDS = 180
CHECKS = """
assert set(figures) == {"val_iid", "val_longer", "test_iid", "test_longer"}
assert figures["test_iid"]["token_accuracy"] > 0.9, figures["test_iid"]
assert figures["test_longer"]["exact_match"] < figures["test_iid"]["exact_match"]
assert not any(call.position.any() for call in trace if call.slot == "cross" and call.position.abs().max() > 1e-5)
assert swapped.evaluate(set="test_iid")["test_iid"]["token_accuracy"] > 0.5
"""


def test_it_runs(tmp_path: Path) -> None:
    (tmp_path / "tutorial.py").write_text(TUTORIAL.read_text() + CHECKS)
    env = environment(PYTHONPATH=str(ROOT), MPLBACKEND="agg", HOME=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "tutorial.py"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "did you mean 'rope'?" in done.stdout and "are taken as they are" in done.stdout


@pytest.mark.slow
def test_it_takes_three_minutes_of_one_core(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    test_it_runs(tmp_path)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    assert spent < SECONDS, f"{spent:.0f} s of CPU"


def test_it_is_made_of_cells_that_hold_no_output() -> None:
    lines = TUTORIAL.read_text().splitlines()
    assert lines[0] == "# %% [markdown]" and sum(line.startswith("# %%") for line in lines) > 12
    assert not list(TUTORIAL.parent.glob("*.ipynb")) and os.path.getsize(TUTORIAL) < 10_000
