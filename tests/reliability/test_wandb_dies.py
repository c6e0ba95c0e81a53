"""W&B never ends a training: not where it is missing or its service dies; and a run knows how it ended."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from relformer.training import wandb_logger
from relformer.training.loggers import sync_hint
from relformer.training.wandb_logger import SteadyWandbLogger
from tests.cli.runs import environment, losses, relformer
from tests.reliability.running import SMALL, running, slow

WANDB = ("logger=wandb", "logger.mode=offline")


def recorded_exit(folder: Path) -> int:
    """The exit code in the file of an offline run."""
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", f"{folder}/"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment(HOME=str(folder)))
    last = [json.loads(line) for line in done.stdout.splitlines()][-1]
    assert last["type"] == "exit"
    return int(last["exit"].get("exit_code", 0))


@pytest.mark.slow
def test_its_service_is_killed(tmp_path: Path) -> None:
    options = (*SMALL, *WANDB, "trainer.max_steps=30", "eval.every=30", "paths.log_dir=logs", slow("step", 0.2))
    with running(tmp_path, *options) as run:
        run.until_step(3)
        (service,) = run.children("wandb-core")
        os.kill(service, signal.SIGKILL)
        assert run.code(120) == 0
        printed = run.printed()
        assert printed.count("W&B takes nothing any more") == 1
        assert "Traceback" not in printed and "could not be closed" not in printed
        assert sorted(losses(run.run)) == list(range(30))
        assert (run.run / "metrics.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_it_is_told_the_exit_code_of_a_signal_and_two_parts_are_one_run(tmp_path: Path, number: int, code: int) -> None:
    options = (*SMALL, *WANDB, "eval.every=40", "resume=auto", "paths.log_dir=logs", "trainer.max_steps=40")
    with running(tmp_path, *options, slow("step", 0.2), "trainer.devices=2") as run:
        run.until_step(3)
        run.send(number, "1")
        assert run.code(60) == code
    (folder,) = (tmp_path / "logs" / "wandb").glob("offline-run-*")
    assert recorded_exit(folder) == code
    if code == 143:
        with running(tmp_path, *options, log="again") as again:
            assert again.code(200) == 0
        first, second = sorted((tmp_path / "logs" / "wandb").glob("offline-run-*"))
        assert first.name.split("-")[-1] == second.name.split("-")[-1]
        assert f"wandb sync logs/wandb/{first.name} logs/wandb/{second.name}" in again.printed()


@pytest.mark.slow
def test_a_failing_job_of_a_sweep_is_recorded_as_failed(tmp_path: Path) -> None:
    (tmp_path / "fails.py").write_text(
        "from lightning.pytorch import Callback\n\n\nclass Fails(Callback):\n"
        "    def on_train_batch_end(self, trainer, *_):\n        if trainer.global_step == 2:\n"
        "            raise RuntimeError('on purpose')\n"
    )
    fails = "+callbacks.fails={_target_: fails.Fails}"
    options = (*SMALL, *WANDB, "trainer.max_steps=3", "paths.log_dir=logs", "seed=1,2", "-m", fails)
    ended = relformer(*options, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, script=True)
    assert ended.code != 0
    folders = list((tmp_path / "logs" / "wandb").glob("offline-run-*"))
    assert len(folders) == 2 and [recorded_exit(folder) for folder in folders] == [1, 1]


@pytest.mark.parametrize("error", [ConnectionResetError("Connection lost"), OSError(28, "No space left on device")])
def test_one_warning_and_no_more_tries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: OSError
) -> None:
    tried: list[Any] = []

    def log(self: Any, metrics: Any, step: Any = None) -> None:
        tried.append(metrics)
        raise error

    monkeypatch.setattr("lightning.pytorch.loggers.WandbLogger.log_metrics", log)
    monkeypatch.setattr(wandb_logger, "let_go", lambda: None)
    logger = SteadyWandbLogger(save_dir=tmp_path, offline=True)
    for step in range(3):
        logger.log_metrics({"loss": 1.0}, step)
    assert len(tried) == 1
    assert capsys.readouterr().err.count("warning: W&B takes nothing any more") == 1


def test_a_fault_of_ours_is_none_of_its(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def log(self: Any, metrics: Any, step: Any = None) -> None:
        raise TypeError("a figure that is none")

    monkeypatch.setattr("lightning.pytorch.loggers.WandbLogger.log_metrics", log)
    with pytest.raises(TypeError):
        SteadyWandbLogger(save_dir=tmp_path, offline=True).log_metrics({"loss": 1.0})


def test_the_parts_of_a_run_are_uploaded_the_oldest_first(tmp_path: Path) -> None:
    run, logs = tmp_path / "run", tmp_path / "logs"
    run.mkdir()
    assert sync_hint(logs, run) is None
    (run / "wandb_id").write_text("abc\n")
    for name in ("offline-run-20300102_000000-abc", "offline-run-20300101_000000-abc", "offline-run-20290101_0-other"):
        (logs / "wandb" / name).mkdir(parents=True)
    assert sync_hint(logs, run) == (
        f"wandb sync {logs}/wandb/offline-run-20300101_000000-abc {logs}/wandb/offline-run-20300102_000000-abc"
    )
    (run / "wandb_id").write_text("other\n")
    assert sync_hint(logs, run) is None
