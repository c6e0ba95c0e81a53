"""Every encoding leaves heatmaps and profiles, in the run directory and in W&B's file; in two processes too."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relformer.encodings  # registers them
from relformer.registry import encodings
from tests.cli.runs import TINY, environment, relformer, run_directories

SLOTS = ("encoder", "decoder", "cross")
RUN = (*TINY, "trainer.max_steps=20", "logger=wandb", "logger.mode=offline", "paths.log_dir=runs")
pytestmark = pytest.mark.slow


def slots_of(name: str) -> list[str]:
    """The overrides that put an encoding wherever it is defined."""
    cls: Any = encodings[name].cls
    needs = [f"model.attention_bias={cls.needs_attention_bias[0]}"] if cls.needs_attention_bias else []
    if "encoder" in cls.refuses:
        return ["encoding=t5", f"decoder_encoding={name}", *needs]
    return [f"encoding={name}", *needs]


def logged(home: Path) -> list[dict[str, Any]]:
    (folder,) = (home / "runs" / "wandb").glob("offline-run-*")
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", f"{folder}/"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment(HOME=str(home)))
    records = map(json.loads, done.stdout.splitlines())
    return [record["history"]["item"] for record in records if record["type"] == "history"]


def check(home: Path) -> None:
    (run,) = run_directories(home / "runs")
    for slot in SLOTS:
        for step in (0, 20):
            assert (run / "heatmaps" / f"{slot}_step{step:06d}.png").exists()
            assert (run / "profiles" / f"{slot}_step{step:06d}.png").exists()
            numbers = np.load(run / "heatmaps" / f"{slot}_step{step:06d}.npz")
            assert np.isfinite(numbers["map"]).any() and np.isfinite(numbers["profile"]).any()
    assert (run / "report.html").exists()
    items = logged(home)
    for key in (f"{folder}/{slot}" for folder in ("bias", "profile") for slot in SLOTS):
        assert [item["trainer/global_step"] for item in items if f"{key}.path" in item] == [0, 20], key


@pytest.mark.parametrize("name", list(encodings))
def test_every_encoding_shows_what_it_does(tmp_path: Path, name: str) -> None:
    relformer(*RUN, *slots_of(name), cwd=tmp_path, script=True).succeeded()
    check(tmp_path)


@pytest.mark.parametrize("name", ["t5", "rope", "shaw", "cope"])
def test_in_two_processes(tmp_path: Path, name: str) -> None:
    relformer(*RUN, *slots_of(name), "trainer.devices=2", cwd=tmp_path, script=True).succeeded()
    check(tmp_path)
