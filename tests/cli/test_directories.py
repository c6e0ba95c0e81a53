"""Run directories that are taken, or can't be: refused before anything is written."""

import sys
from pathlib import Path

import pytest

from relformer.errors import UserError
from relformer.training.launch import launch

TINY = ["data=reverse", "data.examples=400", "data.examples_per_length=20", "logger=csv", "trainer.max_steps=2"]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py"])
    monkeypatch.chdir(tmp_path)


def refused(*more: str) -> str:
    with pytest.raises(UserError) as fault:
        launch([*TINY, *more])
    return str(fault.value)


@pytest.mark.parametrize("trace", ["csv/metrics.csv", "wandb_id", "checkpoints/last.ckpt"])
def test_the_remains_of_a_run_are_a_run(tmp_path: Path, trace: str) -> None:
    left = tmp_path / "run" / trace
    left.parent.mkdir(parents=True)
    left.write_text("")
    assert "already holds a run" in refused(f"hydra.run.dir={tmp_path / 'run'}")
    assert sorted(p for p in (tmp_path / "run").rglob("*") if p.is_file()) == [left]


def test_a_place_that_cannot_be_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "can't be made" in refused(f"paths.log_dir={tmp_path / 'file'}")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed=0,1", "add -m to run them all"),
        ("name=../../mine", "is not one folder's name"),
        ("+trainer.limit_train_batches=2", "trainer.limit_train_batches is set by the run itself"),
        ("+logger.tags=abc", "is not a list"),
        ("optimizer.betas=[0.9]", "does not take these options"),
        ("seed=true", "is not an integer"),
    ],
)
def test_faults_that_leave_nothing(tmp_path: Path, override: str, message: str) -> None:
    assert message in refused(override)
    assert not list(tmp_path.iterdir())
