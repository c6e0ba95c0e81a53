"""SIGKILL at any moment, on one process and two, and the run goes on to the very same end. Minutes."""

import re
import signal
from pathlib import Path

import pytest

from relformer.training.sealing import LAST, good_ones, read_step
from tests.reliability.processes import Started
from tests.reliability.tiny import TINY, VARIANTS, rows, state, unequal

pytestmark = pytest.mark.slow

CASES = {
    "1 process": ((), ["step7", "validation12", "checkpoint15", "step20", "step21", "validation24"]),
    "1 process, 2 workers": (
        ("data.workers=2", *VARIANTS["ema"], *VARIANTS["accumulated"]),
        ["validation4", "step8", "checkpoint12"],
    ),
    "2 processes": (
        ("trainer.devices=2", *VARIANTS["accumulated"]),
        ["rank1:step7", "rank0:validation12", "rank0:checkpoint15", "step21"],
    ),
    "2 processes, 2 workers": (
        ("trainer.devices=2", "data.workers=2", *VARIANTS["ema"]),
        ["rank0:step8", "rank1:validation12"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_killed_anywhere(tmp_path: Path, case: str) -> None:
    options, places = CASES[case]
    whole, run = tmp_path / "whole", tmp_path / "run"
    Started(*TINY, *options, f"hydra.run.dir={whole}", cwd=tmp_path).ended().succeeded()
    for place in places:
        killed = Started(*TINY, *options, f"hydra.run.dir={run}", "resume=auto", cwd=tmp_path, fault=f"kill@{place}")
        ended = killed.ended()
        assert ended.code != 0 and not (run / "metrics.json").exists(), ended.out
        if "checkpoint" in place:
            (left,) = run.rglob("*.tmp*")
            assert 0 < left.stat().st_size < (run / "checkpoints" / LAST).stat().st_size
    last = Started(*TINY, *options, f"hydra.run.dir={run}", "resume=auto", cwd=tmp_path).ended().succeeded()
    assert f"continuing from {run / 'checkpoints' / LAST}" in last.out
    assert unequal(rows(run), rows(whole)) == []
    for name in ("last.ckpt", "previous.ckpt", "best.ckpt"):
        assert unequal(state(run / "checkpoints" / name), state(whole / "checkpoints" / name)) == [], name
    assert not list(run.rglob("*.tmp*"))


def test_killed_again_and_again_while_writing(tmp_path: Path) -> None:
    """A checkpoint every step, and each run lives for two of them: the folder always has a good one."""
    run, options = (
        tmp_path / "run",
        ("callbacks.last_checkpoint.every_n_train_steps=1", "callbacks.best_checkpoint=null"),
    )
    for step in range(2, 9, 2):
        place = "checkpoint" if step % 4 else "rename"
        fault = f"kill@{place}{step}"
        ended = Started(*TINY, *options, f"hydra.run.dir={run}", "resume=auto", cwd=tmp_path, fault=fault).ended()
        assert ended.code == -signal.SIGKILL, ended.out
        assert [read_step(path) for path in good_ones(run / "checkpoints")][:1] == [step - 1]
        assert len(list(run.rglob("*.tmp*"))) == 1


def test_another_number_of_processes_is_said_and_goes_on(tmp_path: Path) -> None:
    run = tmp_path / "run"
    where = (f"hydra.run.dir={run}", "resume=auto")
    Started(*TINY, *where, "trainer.devices=2", cwd=tmp_path, fault="kill@step14").ended()
    assert (run / "checkpoints" / LAST).exists()
    ended = Started(*TINY, *where, cwd=tmp_path).ended().succeeded()
    said = "2 processes then, 1 now: the batches stay the same; dropout and the last digits of sums differ"
    assert said in ended.out and re.search(r"continuing from .*last.ckpt \(step 12\)", ended.out)
