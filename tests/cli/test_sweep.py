"""A sweep: each job a process of its own, and one that fails stops no other."""

from pathlib import Path

from tests.cli.runs import TINY, metrics, relformer, run_directories


def test_one_failing_job_stops_no_other(tmp_path: Path) -> None:
    arguments = (*TINY, "logger=csv", "trainer.max_steps=2", "paths.log_dir=runs", "model.heads=5,4", "-m")
    ended = relformer(*arguments, cwd=tmp_path, script=True)
    assert ended.code != 0
    assert "error: model.heads=5 does not divide model.width=64" in ended.error
    (run,) = run_directories(tmp_path / "runs")
    assert metrics(run)["config"]["model"]["heads"] == 4
    assert run.name.startswith("1_") and run.parent.parent.name == "multirun"
    assert "sweep job 0 ended with exit code 2" in ended.error + ended.out
    assert "test_longer, exact match" in ended.out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs"]
