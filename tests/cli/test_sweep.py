"""A sweep: each job a process of its own, and one that fails stops no other; what is finished is not run again."""

import sys
from pathlib import Path

import pytest

from relformer.errors import UserError
from relformer.sweeps.job import objective, run_key
from relformer.training.launch import launch
from tests.cli.runs import TINY, metrics, relformer, run_directories
from tests.config.composed import composed


def test_one_failing_job_stops_no_other(tmp_path: Path) -> None:
    tuned = ("sweep.objective=test/longer/loss", "sweep.tune_on_test=true")
    arguments = (*TINY, *tuned, "logger=csv", "trainer.max_steps=2", "paths.log_dir=runs", "model.heads=5,4", "-m")
    ended = relformer(*arguments, cwd=tmp_path, script=True)
    assert ended.code != 0
    assert "error: model.heads=5 does not divide model.width=64" in ended.error
    (run,) = run_directories(tmp_path / "runs")
    assert metrics(run)["config"]["model"]["heads"] == 4
    assert run.name.startswith("1_") and run.parent.parent.name == "multirun"
    assert "sweep job 0 ended with exit code 2" in ended.error + ended.out
    assert "test_longer, exact match" in ended.out
    assert metrics(run)["tuned_on_test"] and "options were chosen on the test sets (seeds 0)" in ended.out
    assert objective(run, tuned[0].split("=")[1]) == metrics(run)["checkpoints"]["last"]["test_longer"]["loss"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs"]


def test_a_comparison_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """Without -m; what is finished stays as it is, and what is new joins it in the table."""

    def compared(encodings: str) -> str:
        options = ("experiment=compare_encodings", f"encoding={encodings}", "seed=3", "trainer.max_steps=2")
        return relformer(*TINY, *options, "logger=csv", cwd=tmp_path, script=True).succeeded().out

    assert "finished before" not in compared("t5")
    (first,) = run_directories(tmp_path / "runs")
    before = {path: path.stat().st_mtime_ns for path in first.rglob("*") if ".hydra" not in path.parts}
    said = compared("t5,alibi")
    assert said.count("finished before") == 1 and f"finished before: {first}" in said
    assert {path: path.stat().st_mtime_ns for path in before} == before
    runs = run_directories(tmp_path / "runs")
    assert sorted(metrics(run)["config"]["encoding"]["name"] for run in runs) == ["alibi", "t5"]
    assert {metrics(run)["config"]["seed"] for run in runs} == {3}
    assert "Against t5, over seeds" in said
    assert {run.parent for run in runs} == {tmp_path / "runs" / "compare_encodings" / "reverse"}


def test_a_key_is_of_what_a_run_is() -> None:
    def key(*overrides: str) -> str:
        return run_key(_root_=composed(*overrides))

    same = {key(), key("paths.log_dir=elsewhere"), key("logger=none"), key("trainer.log_every_n_steps=3")}
    others = (
        "seed=1",
        "encoding=alibi",
        "trainer.max_steps=3",
        "trainer.max_epochs=2",
        "data.seed=1",
        "optimizer.lr=1",
    )
    assert len(same) == 1
    assert len(same | {key(each) for each in others}) == 1 + len(others)


@pytest.mark.parametrize("flags", [[], ["-m"]])
@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("sweep.objective=test/longer/exact_match", "is of a test set: what is chosen on it can't be tested on it"),
        ("sweep.objective=test_longer", "say sweep.tune_on_test=true"),
    ],
)
def test_an_objective_on_a_test_set_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str], override: str, message: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py"])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message):
        launch([*TINY, *flags, override])
    assert not list(tmp_path.iterdir())


def test_an_objective_must_be_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py"])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"sweep\.objective=val/idd/loss is not measured; did you mean 'val/iid/loss'"):
        launch([*TINY, "sweep.objective=val/idd/loss"])
