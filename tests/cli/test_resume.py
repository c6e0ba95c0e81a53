"""Continuing a run: as if nothing had happened, or not at all."""

import signal
import sys
from pathlib import Path

import pytest

from relformer.errors import UserError
from relformer.training.launch import launch
from tests.cli.conftest import RUN
from tests.cli.runs import Ended, content, losses, relformer, results, run_directories

DIES = '''"""A callback that kills its own process, as the power cut does."""

import os
import signal

from lightning.pytorch import Callback


class Dies(Callback):
    def __init__(self, batch: int) -> None:
        self.batch = batch

    def on_train_batch_end(self, trainer, module, outputs, batch, index) -> None:
        if index == self.batch:
            os.kill(os.getpid(), signal.SIGKILL)
'''


def test_a_killed_run_continues_to_the_very_same_end(trained: tuple[Path, Ended], tmp_path: Path) -> None:
    """Killed in the middle of step 9, two steps and a validation after the checkpoint of step 6."""
    whole, _ = trained
    run = tmp_path / "run"
    (tmp_path / "dies.py").write_text(DIES)
    killer = "+callbacks.dies={_target_: dies.Dies, batch: 16}"
    place = (f"hydra.run.dir={run}", "resume=auto")
    first = relformer(*RUN, *place, killer, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, script=True)
    assert first.code == -signal.SIGKILL, first.error
    assert "so this run starts at step 0" in first.out
    assert not (run / "metrics.json").exists()
    assert (run / "checkpoints" / "last.ckpt").exists() and not list(run.rglob("*.tmp*"))
    before = losses(run)
    assert 0 < len(before) < 12

    second = relformer(*RUN, *place, cwd=tmp_path, script=True).succeeded()
    assert f"continuing from {run / 'checkpoints' / 'last.ckpt'}" in second.out
    assert run_directories(tmp_path) == [run]
    assert losses(run) == losses(whole)
    assert {step: before[step] for step in before} == {step: losses(whole)[step] for step in before}
    assert results(run) == results(whole)
    assert (run / "examples.jsonl").read_bytes() == (whole / "examples.jsonl").read_bytes()
    for stack in ("encoder", "decoder"):
        last = Path("heatmaps") / f"{stack}_step000012.png"
        assert (run / last).read_bytes() == (whole / last).read_bytes()


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, trained: tuple[Path, Ended], tmp_path: Path) -> Path:
    """The finished run, with the tests' process in the place of the command line."""
    monkeypatch.setattr(sys, "argv", ["train.py"])
    monkeypatch.chdir(tmp_path)
    return trained[0]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["resume=auto", "model.dropout=0.2"], r"other options:\n  model.dropout: 0.1 then, 0.2 now\n.*resume_changed"),
        (
            ["resume=auto", "encoding=alibi", "seed=3"],
            r"\n  seed: 0 then, 3 now\n  encoding.name: t5 then, alibi now\n",
        ),
        (["resume=auto", "decoder_encoding=t5"], r"\n  decoder_encoding.name: not set then, t5 now\n"),
        (["resume=auto", "trainer.gradient_clip_val=0.1"], r"\n  trainer.gradient_clip_val: None then, 0.1 now\n"),
        ([], "already holds a run; continue it with resume=auto, or choose another hydra.run.dir"),
    ],
)
def test_another_run_never_takes_over_a_directory(refused: Path, tmp_path: Path, more: list[str], message: str) -> None:
    before = content(refused)
    with pytest.raises(UserError, match=message):
        launch([*RUN, f"hydra.run.dir={refused}", *more])
    assert content(refused) == before
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_of_another_run_is_refused_before_a_directory_exists(refused: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"\n  loss.label_smoothing: 0.0 then, 0.1 now\n"):
        launch([*RUN, f"resume={refused / 'checkpoints' / 'last.ckpt'}", "loss.label_smoothing=0.1"])
    assert not list(tmp_path.iterdir())
