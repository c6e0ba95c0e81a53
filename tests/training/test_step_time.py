"""Runs of equal time: measured in turns, by a clock of the test's own, once for all that must have one number."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from relformer.benchmark import interleaved
from relformer.config import plain
from relformer.data.corpus import build_corpus
from relformer.errors import UserError
from relformer.model import Seq2Seq
from relformer.training import step_time
from relformer.training.matching import keep_match, matching_overrides
from relformer.training.module import Seq2SeqModule
from tests.config.composed import composed


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Shows the time, which passes while a batch is trained on: 3 seconds with parameters of position, 2 without."""
    shown = [0.0]

    def slow(module: Seq2SeqModule, *batch: Any) -> torch.Tensor:
        shown[0] += 3 if module.model.position_parameters() else 2
        return next(module.parameters()).sum()

    monkeypatch.setattr(Seq2SeqModule, "training_step", slow)
    monkeypatch.setattr(interleaved, "now", lambda device: shown[0])
    monkeypatch.setattr(step_time, "SECONDS", 0.0)
    yield shown


def matched(home: Path, *overrides: str) -> tuple[int, str]:
    """The steps, and what is said."""
    run = (f"paths.log_dir={home}/runs", "trainer.accelerator=cpu", "trainer.max_steps=1000", "match=time")
    (steps, *rest), sentence = matching_overrides(composed(*run, f"hydra.run.dir={home}/run", *overrides))
    assert rest == ["match=null", "matched=time"]
    return int(steps.removeprefix("trainer.max_steps=")), sentence


def records(home: Path) -> list[Path]:
    return sorted((home / "runs" / "matched_time").glob("*.json"))


def test_fewer_steps_pay_for_the_time(tmp_path: Path, clock: list[float]) -> None:
    steps, sentence = matched(tmp_path, "encoding=t5")
    assert steps == 667
    assert (
        "trainer.max_steps 1000 -> 667; 3000 ms a step, 1.500 times as long as without positions (2000 ms" in sentence
    )
    assert f"7 rounds in turn; {step_time.machine(torch.device('cpu'))['device']}, 1 thread)" in sentence
    (kept,) = records(tmp_path)
    assert sentence.endswith(f"kept in {kept}")
    found = step_time.read(kept)
    assert (found.low, found.ratio, found.high) == (1.5, 1.5, 1.5)


def test_a_turn_is_made_of_whole_steps(tmp_path: Path, clock: list[float]) -> None:
    """Batches of one optimizer step stay together; each of two models has seven turns, two before and one uncounted."""
    matched(tmp_path, "encoding=t5", "trainer.accumulate_grad_batches=6", "trainer.gradient_clip_val=0.5")
    assert clock[0] == (2 + 1 + 7) * 6 * (3 + 2)
    assert step_time.read(records(tmp_path)[0]).seconds == 18


def test_it_is_measured_once(tmp_path: Path, clock: list[float]) -> None:
    matched(tmp_path, "encoding=t5")
    (kept,) = records(tmp_path)
    began = clock[0]
    for same in (["seed=5", "logger=none"], ["optimizer.lr=0.1", "scheduler=constant", "eval.every=3"]):
        steps, sentence = matched(tmp_path, "encoding=t5", *same)
        assert steps == 667 and sentence.endswith(f"as measured before: {kept}")
    assert matched(tmp_path, "encoding=t5", "trainer.max_steps=300")[0] == 200
    assert clock[0] == began


def test_what_changes_a_step_has_a_time_of_its_own(
    tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    others = ("encoding.num_buckets=16", "model.width=96", "data.batch_size=8", "trainer.precision=64-true")
    for n, other in enumerate(("encoding=t5", *others), 1):
        matched(tmp_path, "encoding=t5", other)
        assert len(records(tmp_path)) == n, other
    compiled = []
    monkeypatch.setattr(Seq2Seq, "compile_training", lambda model: compiled.append(model))
    matched(tmp_path, "encoding=t5", "hardware.compile=true")
    assert len(records(tmp_path)) == 2 + len(others) and len(compiled) == 2
    try:
        _, sentence = matched(tmp_path, "encoding=t5", "hardware.threads=2")
    finally:
        torch.set_num_threads(1)
    assert len(records(tmp_path)) == 3 + len(others) and "2 threads)" in sentence


def test_a_run_goes_on_with_its_own_number(tmp_path: Path, clock: list[float]) -> None:
    """Wherever that is: what others measured there meanwhile says nothing of it."""
    resumed = composed("encoding=t5", "match=time", "resume=auto", f"paths.log_dir={tmp_path}/runs")
    resumed.hydra.run.dir = str(tmp_path / "run")
    matched(tmp_path, "encoding=t5")
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    keep_match(resumed)
    own = tmp_path / "run" / step_time.FILE
    assert own.read_text() == records(tmp_path)[0].read_text()
    torch.save({}, tmp_path / "run" / "checkpoints" / "last.ckpt")
    records(tmp_path)[0].write_text(json.dumps({**json.loads(own.read_text()), "ratio": 4.0}))
    steps, sentence = matched(tmp_path, "encoding=t5", "resume=auto")
    assert steps == 667 and sentence.endswith(str(own))
    assert matched(tmp_path, "encoding=t5")[0] == 250
    keep_match(resumed)
    assert step_time.read(own).ratio == 1.5
    elsewhere = (f"resume={tmp_path}/run/checkpoints/last.ckpt", f"hydra.run.dir={tmp_path}/other")
    assert matched(tmp_path, "encoding=t5", *elsewhere)[0] == 667


def test_no_positions_cost_nothing(tmp_path: Path, clock: list[float]) -> None:
    assert matched(tmp_path, "encoding=none") == (
        1000,
        "match=time: trainer.max_steps stays 1000; the model has no positions",
    )
    assert not records(tmp_path) and clock[0] == 0


def test_many_processes_don_t_measure_each_for_itself(
    tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UserError, match="start the run once without torchrun or srun"):
        matched(tmp_path, "encoding=t5")
    monkeypatch.delenv("WORLD_SIZE")
    matched(tmp_path, "encoding=t5")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert matched(tmp_path, "encoding=t5")[0] == 667


def test_a_damaged_record_is_named(tmp_path: Path, clock: list[float]) -> None:
    matched(tmp_path, "encoding=t5")
    records(tmp_path)[0].write_text("{}")
    with pytest.raises(UserError, match=r"is not a measured step .* delete it, to have it measured anew"):
        matched(tmp_path, "encoding=t5")


def test_a_device_measures_its_share_of_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    monkeypatch.setattr(step_time, "turn", lambda fabric, parts, batches, *_: sizes.append(len(batches[0].source)))
    monkeypatch.setattr(step_time, "rounds", lambda turns: 1)
    for devices in ("2", "[0,1]", "1"):
        config = composed("trainer.accelerator=cpu", f"trainer.devices={devices}", "data.batch_size=20")
        with pytest.raises(TypeError):  # nothing to run
            step_time.measured(config, build_corpus(plain(config, "data")["data"]))
    assert sizes == [10, 10, 10, 10, 20, 20]


def test_real_steps_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_time, "SECONDS", 0.0)
    config = composed("encoding=transformer_xl", "trainer.accelerator=cpu")
    state = torch.get_rng_state()
    found = step_time.measured(config, build_corpus(plain(config, "data")["data"]))
    assert 0 < found.low <= found.ratio <= found.high < 100
    assert torch.equal(torch.get_rng_state(), state)
