"""Losses and gradients that are not finite, losses that rise again, and memory that ends."""

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from relformer import faults
from relformer.config import plain
from relformer.data.corpus import build_corpus, common_options
from relformer.data.planning import Share, TrainingPlans
from relformer.errors import OptionError, RunError
from relformer.training.callbacks.divergence import Divergence
from relformer.training.callbacks.finite_steps import FiniteSteps
from tests.cli.runs import relformer, run_directories
from tests.config.composed import checked
from tests.reliability.small import FAST, run

POISON = "+callbacks.poison._target_=tests.reliability.poison.Poison"


def last(directory: Path) -> dict[str, Any]:
    content: dict[str, Any] = torch.load(directory / "checkpoints" / "last.ckpt", weights_only=True)
    return content


def records(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "skipped_steps.jsonl").read_text().splitlines()]


def planned(accumulate: int, rank: int = 0, world: int = 1) -> list[list[int]]:
    """The rows of a rank's first steps, as they are planned."""
    options = plain(checked(), "data")["data"]
    corpus = build_corpus(options)
    train, common = corpus.sets["train"], common_options(options)
    labels = common.frame.target_positions(train.target_lengths)
    plans = TrainingPlans(common.order(train, 0, world), labels, Share(rank, world, accumulate), 0)
    batches = iter([plan.rows for plan in islice(plans, 8 * accumulate)])
    return [[row for _ in range(accumulate) for row in next(batches)] for _ in range(8)]


@pytest.mark.parametrize(
    ("kind", "overrides"),
    [
        ("loss", ()),
        ("gradient", ()),
        ("loss", ("trainer.gradient_clip_val=1", "optimizer=adamw")),
        ("gradient", ("trainer.accumulate_grad_batches=2",)),
        ("loss", ("trainer.precision=bf16-mixed",)),
        ("loss", ("optimizer.fused=false", "trainer.gradient_clip_val=0.1", "trainer.accumulate_grad_batches=2")),
    ],
)
def test_a_step_that_is_not_finite_never_reaches_the_weights(
    tmp_path: Path, kind: str, overrides: tuple[str, ...]
) -> None:
    """Nor the optimizer's state: all that is left of it is that the step was counted."""
    found = run(tmp_path, *overrides, POISON, "+callbacks.poison.steps=[4]", f"+callbacks.poison.kind={kind}")
    content = last(tmp_path)
    assert content["global_step"] == 8 and found["skipped_steps"] == 1
    assert all(torch.isfinite(value).all() for value in content["state_dict"].values())
    states = content["optimizer_states"][0]["state"].values()
    assert {int(state["step"]) for state in states} == {7}
    assert all(torch.isfinite(value).all() for state in states for value in state.values())
    assert content["lr_schedulers"][0]["last_epoch"] == 8
    (record,) = records(tmp_path)
    batches = 2 if "trainer.accumulate_grad_batches=2" in overrides else 1
    assert record["step"] == 4 and record["not_finite"] == kind
    (rank,) = record["ranks"]
    assert rank["batches"] == list(range(3 * batches, 4 * batches)) and len(rank["loss"]) == batches
    assert rank["rows"] == planned(batches)[3]
    logged = (tmp_path / "csv" / "metrics.csv").read_text().splitlines()
    column = logged[0].split(",").index("train/skipped_steps")
    assert [line.split(",")[column] for line in logged[1:] if line.split(",")[column]] == ["1"]


def test_a_skipped_step_is_the_step_before_it_with_its_number_moved_on(tmp_path: Path) -> None:
    run(tmp_path / "shorter", "trainer.max_steps=7", "scheduler=constant")
    run(tmp_path / "spoilt", "scheduler=constant", POISON, "+callbacks.poison.steps=[8]")
    shorter, spoilt = last(tmp_path / "shorter"), last(tmp_path / "spoilt")
    assert (shorter["global_step"], spoilt["global_step"]) == (7, 8)
    for name, value in shorter["state_dict"].items():
        assert torch.equal(value, spoilt["state_dict"][name]), name


def test_a_resumed_run_skips_the_same_steps(tmp_path: Path) -> None:
    """The steps skipped before the interruption are remembered, and what follows is equal bit for bit."""
    poison = (POISON, "+callbacks.poison.steps=[3,4,7]")
    memory = ("+callbacks.memory._target_=tests.reliability.poison.Poison", "+callbacks.memory.kind=memory")
    whole = run(tmp_path / "whole", *poison)
    with pytest.raises(RunError, match="out of memory"):
        run(tmp_path / "cut", *poison, *memory, "+callbacks.memory.steps=[6]")
    resumed = run(tmp_path / "cut", *poison, "resume=auto")
    assert whole["skipped_steps"] == resumed["skipped_steps"] == 3
    one, other = last(tmp_path / "whole"), last(tmp_path / "cut")
    assert all(torch.equal(value, other["state_dict"][name]) for name, value in one["state_dict"].items())


def test_so_many_in_a_row_end_the_run(tmp_path: Path) -> None:
    with pytest.raises(RunError) as fault:
        run(tmp_path, POISON, "+callbacks.poison.steps=[2,4,5,6,7]", "callbacks.finite_steps.stop_after=3")
    assert str(fault.value).startswith("training stops: the loss of steps 4 to 6 was not finite")
    assert "the weights are still those of step 3" in str(fault.value) and "skipped_steps.jsonl" in str(fault.value)
    assert [record["step"] for record in records(tmp_path)] == [2, 4, 5, 6]
    assert all(torch.isfinite(value).all() for value in last(tmp_path)["state_dict"].values())


def test_a_fault_on_purpose_spoils_its_step_alone(tmp_path: Path) -> None:
    faults.arm("nan@step3,inf@step5")
    try:
        assert run(tmp_path)["skipped_steps"] == 2
    finally:
        faults.arm(None)
    assert [record["step"] for record in records(tmp_path)] == [3, 5]


@pytest.mark.parametrize("stop_after", [0, -1, True, 2.5])
def test_how_many_is_a_number(stop_after: Any) -> None:
    with pytest.raises(OptionError, match=r"callbacks.finite_steps.stop_after=.* must be an integer of at least 1"):
        FiniteSteps("x", stop_after)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "ranks"), [("loss", "[1]"), ("gradient", "[0]")])
def test_all_ranks_skip_what_one_of_them_met(tmp_path: Path, kind: str, ranks: str) -> None:
    ended = relformer(
        "data=reverse",
        "data.examples=200",
        "data.examples_per_length=4",
        *FAST,
        "trainer.devices=2",
        "trainer.max_steps=9",
        "callbacks.finite_steps.stop_after=2",
        *(POISON, f"+callbacks.poison.kind={kind}", f"+callbacks.poison.ranks={ranks}"),
        "+callbacks.poison.steps=[3,7,8]",
        cwd=tmp_path,
    )
    assert ended.code == 1 and "Traceback" not in ended.error
    assert ended.error.count("error: training stops") == 1
    (directory,) = run_directories(tmp_path / "runs")
    found = records(directory)
    assert [record["step"] for record in found] == [3, 7, 8]
    for record in found:
        for number, rank in enumerate(record["ranks"]):
            assert rank["rank"] == number and rank["rows"] == planned(1, number, 2)[record["step"] - 1]
    content = last(directory)
    assert content["global_step"] == 6
    assert {int(state["step"]) for state in content["optimizer_states"][0]["state"].values()} == {5}
    assert "step 3 is skipped" in ended.out + ended.error and "rank 1: batch 2" in ended.out + ended.error


def test_a_run_out_of_memory_says_what_to_change(tmp_path: Path) -> None:
    ended = relformer(
        *("data=reverse", "data.examples=200", "data.examples_per_length=4", *FAST, POISON),
        *("+callbacks.poison.steps=[5]", "+callbacks.poison.kind=memory"),
        cwd=tmp_path,
    )
    assert ended.code == 1 and "Traceback" not in ended.error
    message = ended.error[ended.error.index("error: out of memory") :]
    assert message.startswith(
        "error: out of memory in step 5, training: CUDA out of memory. Tried to allocate 2.00 GiB."
    )
    for part in ("batch 4: 64 pairs on this device, the longest source 12", "lower data.batch_size=64", "bf16-mixed"):
        assert part in message
    (directory,) = run_directories(tmp_path / "runs")
    assert last(directory)["global_step"] == 4 and not (directory / "metrics.json").exists()


def test_the_allocator_of_the_cpu_counts_as_memory(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"lower data.max_tokens=400(.|\n)*data.max_length"):
        run(
            tmp_path,
            *(POISON, "+callbacks.poison.steps=[2]", "+callbacks.poison.kind=allocator"),
            *("data.max_tokens=400", "data.batch_size=null"),
        )


class Scripted:
    """A trainer of a given loss."""

    is_global_zero = True
    global_step = 0

    def __init__(self, losses: list[float]) -> None:
        self.losses = losses
        self.callback_metrics: dict[str, float] = {}

    def play(self, callback: Divergence) -> None:
        for loss in self.losses:
            self.global_step += callback.every_n_steps
            self.callback_metrics["train/loss"] = loss
            callback.on_train_batch_end(self, None)  # type: ignore[arg-type]


FALLING = [3 * 0.97**n + 0.1 * (n % 2) for n in range(100)]


@pytest.mark.parametrize(
    ("losses", "diverges"),
    [
        (FALLING, False),
        ([*FALLING, 9.0, *FALLING[-20:]], False),  # one bad batch
        ([*FALLING, *[0.4] * 50], False),  # a little worse
        ([*FALLING, *[float("nan")] * 5, *FALLING[-20:]], False),
        ([*FALLING, *[2.5] * 30], True),
        ([3.0] * 10 + [3.2, 3.6, 4.0, 5.0, 8.0, 20.0] + [40.0] * 5, True),  # from the start
    ],
)
def test_a_loss_that_rises_for_good_is_said_once(
    losses: list[float], diverges: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING", "relformer"):
        Scripted(losses).play(Divergence())
    assert len([r for r in caplog.records if "training diverges" in r.message]) == diverges
    if diverges:
        with pytest.raises(RunError, match=r"training diverges(.|\n)*best_val"):
            Scripted(losses).play(Divergence(stop=True))


def test_what_divergence_has_seen_survives_a_resume() -> None:
    half, whole = Divergence(), Divergence()
    Scripted(FALLING).play(half)
    resumed = Divergence()
    resumed.load_state_dict(half.state_dict())
    Scripted([*FALLING, *[1.0] * 5]).play(whole)
    rest = Scripted([1.0] * 5)
    rest.global_step = 1000
    rest.play(resumed)
    assert resumed.state_dict() == whole.state_dict()
