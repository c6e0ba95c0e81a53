"""A comparison that tunes first, as a user runs it."""

import json
from pathlib import Path

import pytest

from tests.cli.runs import TINY, metrics, relformer, run_directories


@pytest.mark.slow
def test_rates_are_chosen_and_fresh_seeds_run(tmp_path: Path) -> None:
    """What is finished stays, of both stages, when the command is given again."""
    sweep = ("experiment=tune_and_compare", "sweep.learning_rates=[1e-5,2e-3]", "sweep.tuning_seeds=[70]")
    run = (*TINY, "logger=csv", "encoding=alibi", "trainer.max_steps=2", "callbacks.bias_heatmaps=null", "seed=3")
    said = relformer(*run, *sweep, cwd=tmp_path, script=True).succeeded().out
    home = tmp_path / "runs" / "tune_and_compare" / "reverse"
    first, second, fresh = sorted(run_directories(home), key=lambda each: metrics(each)["config"]["seed"], reverse=True)
    assert {each.parent for each in (first, second)} == {home / "tuning"} and fresh.parent == home
    tried = {metrics(each)["config"]["optimizer"]["lr"]: metrics(each) for each in (first, second)}
    losses = {rate: run["checkpoints"]["last"]["val_iid"]["loss"] for rate, run in tried.items()}
    assert losses[2e-3] < losses[1e-5]
    assert metrics(fresh)["config"]["optimizer"]["lr"] == 2e-3
    assert {metrics(each)["config"]["seed"] for each in (first, second)} == {70}
    (record,) = json.loads((home / "tuning.json").read_text())["groups"]
    assert record["chosen"] == 2e-3 and record["losses"] == [[losses[1e-5]], [losses[2e-3]]]
    assert said.count("Learning rates tried") == said.count("Means over seeds") == 1
    again = relformer(*run, *sweep, cwd=tmp_path, script=True).succeeded().out
    assert again.count("finished before") == 3 and "Learning rates tried" in again
