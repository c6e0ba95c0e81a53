"""Sweeps whose jobs have two ranks: one set of overrides a job, one W&B run, one study."""

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.runs import metrics, relformer, run_directories
from tests.reliability.running import SMALL

SWEEP = (*SMALL, "trainer.devices=2", "hydra.sweep.dir=sweep")


@pytest.mark.slow
def test_every_job_has_a_run_of_its_own(tmp_path: Path) -> None:
    arguments = ("-m", "encoding=t5,alibi", "trainer.max_steps=20", "logger=wandb", "logger.mode=offline")
    relformer(*SWEEP, *arguments, cwd=tmp_path, script=True).succeeded()
    first, second = run_directories(tmp_path / "sweep")
    assert [metrics(run)["config"]["encoding"]["name"] for run in (first, second)] == ["t5", "alibi"]
    identities = [(run / "wandb_id").read_text().strip() for run in (first, second)]
    logs = [path for each in identities for path in (tmp_path / "runs" / "wandb").glob(f"offline-run-*-{each}/*.wandb")]
    assert len(logs) == 2 and len(list((tmp_path / "runs" / "wandb").glob("offline-run-*"))) == 2
    assert all(f"{tmp_path.name}/sweep".encode() in log.read_bytes() for log in logs)  # the group
    for run in (first, second):
        assert (run / "train_ddp_process_1.log").exists()


@pytest.mark.slow
def test_a_study_goes_on_without_a_trial_that_lost_a_rank(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    space = ("sweep=optuna", "sweep.trials=2", "trainer.max_steps=4,6", "optimizer.lr=interval(0.001,0.01)")
    first_of_six = "sweep.search_seed=1"
    short = ("data.examples_per_length=2", "eval.generate=false")
    fault = {"RELFORMER_FAULT": "kill@rank1:step6"}
    said = relformer(*SWEEP, *short, *space, first_of_six, cwd=tmp_path, env=fault, script=True).succeeded().out
    jobs = json.loads((tmp_path / "sweep" / "sweep.json").read_text())["jobs"]
    assert [(job["parameters"]["trainer.max_steps"], job["exit_code"]) for job in jobs] == [("6", 1), ("4", 0)]
    for job in jobs:
        told = yaml.safe_load((tmp_path / "sweep" / job["directory"] / ".hydra" / "overrides.yaml").read_text())
        assert f"optimizer.lr={job['parameters']['optimizer.lr']}" in told
    lr = metrics(tmp_path / "sweep" / jobs[1]["directory"])["config"]["optimizer"]["lr"]
    assert lr == pytest.approx(jobs[1]["parameters"]["optimizer.lr"])
    assert "best        trial 1" in said and "val/iid/loss" in said
