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
    space = ("sweep=optuna", "sweep.trials=3", "trainer.max_steps=4,6", "optimizer.lr=interval(0.001,0.01)")
    fault = {"RELFORMER_FAULT": "kill@rank1:step6"}
    said = relformer(*SWEEP, *space, "logger=csv", cwd=tmp_path, env=fault, script=True).succeeded().out
    jobs = json.loads((tmp_path / "sweep" / "sweep.json").read_text())["jobs"]
    assert len(jobs) == 3
    assert {job["parameters"]["trainer.max_steps"] for job in jobs} == {"4", "6"}
    assert all((job["exit_code"] == 0) == (job["parameters"]["trainer.max_steps"] == "4") for job in jobs)
    for job in jobs:
        told = yaml.safe_load((tmp_path / "sweep" / job["directory"] / ".hydra" / "overrides.yaml").read_text())
        assert f"optimizer.lr={job['parameters']['optimizer.lr']}" in told
        if job["exit_code"] == 0:
            lr = metrics(tmp_path / "sweep" / job["directory"])["config"]["optimizer"]["lr"]
            assert lr == pytest.approx(job["parameters"]["optimizer.lr"])
    assert "best        trial" in said and "val/iid/loss" in said
