"""A continued run has the options it was begun with; other ones are named, and go only where the weights allow it."""

from pathlib import Path

import pytest
import torch
from omegaconf import DictConfig

from relformer.errors import UserError
from relformer.training.differences import changes_of, differences, said_of_start
from relformer.training.run import train
from tests.config.composed import checked, composed, without_hydra
from tests.reliability.tiny import TINY, rows

RUN = (*TINY, "decoder_encoding=alibi", "scheduler=constant", "scheduler.warmup_steps=0")
SHORT = "trainer.max_steps=6"


def train_in(directory: Path, *overrides: str) -> dict[str, object]:
    config = checked(*RUN, *overrides, f"paths.run_dir={directory}", "resume=auto")
    return train(without_hydra(config))


@pytest.fixture(scope="module")
def last(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("run")
    train_in(directory, SHORT)
    return directory / "checkpoints" / "last.ckpt"


def refused(last: Path, config: DictConfig) -> str:
    with pytest.raises(UserError) as fault:
        changes_of(last, config)
    return str(fault.value)


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("model.dropout=0.2", "model.dropout: 0.1 then, 0.2 now"),
        ("decoder_encoding.max_bias=4", "decoder_encoding.max_bias: 8.0 then, 4.0 now"),
        ("data.batch_size=10", "data.batch_size: 20 then, 10 now"),
        ("optimizer.lr=0.1", "optimizer.lr: 0.01 then, 0.1 now"),
        ("scheduler=linear", "scheduler.name: constant then, linear now"),
        ("trainer.gradient_clip_val=1.0", "trainer.gradient_clip_val: None then, 1.0 now"),
    ],
)
def test_what_differs_is_told_and_can_be_allowed(last: Path, override: str, told: str) -> None:
    config = composed(*RUN, override)
    message = refused(last, config)
    assert f"\n  {told}\n" in message and "resume_changed=true to go on with the new values" in message
    config.resume_changed = True
    assert list(changes_of(last, config)) == [told.partition(":")[0]]


def test_keys_that_are_numbers_or_hold_dots_are_seen() -> None:
    then = {"data": {"lengths": {1: 0.5, 2: 0.5}, "a.b": 1}}
    now = {"data": {"lengths": {1: 0.5, 2: 0.25}, "a.b": 2}}
    assert differences(then, now) == {"data.lengths.2": (0.5, 0.25), "data.a.b": (1, 2)}


@pytest.mark.parametrize(
    ("override", "why"),
    [
        ("model.width=32", "they change the model's weights ("),
        ("encoding.num_buckets=16", "they change the model's weights ("),
        ("optimizer=adamw", "optimizer._target_ can't change"),
        ("trainer.accumulate_grad_batches=2", "trainer.accumulate_grad_batches can't change"),
    ],
)
def test_what_can_not_be_allowed(last: Path, override: str, why: str) -> None:
    message = refused(last, composed(*RUN, override, "resume_changed=true"))
    assert why in message and message.endswith("so repeat the first command, or start a new run directory")


def test_a_slot_that_was_not_set_is_absent(last: Path) -> None:
    """A null `decoder_encoding` must not match one that was set."""
    config = composed(*(o for o in RUN if not o.startswith("decoder_encoding")))
    assert "decoder_encoding.name: alibi then, not set now" in refused(last, config)


def test_a_run_does_not_go_back(last: Path) -> None:
    assert "is of step 6, beyond trainer.max_steps=4; set it to 6 or more" in refused(
        last, composed(*RUN, "trainer.max_steps=4")
    )


def test_differences_are_by_dotted_key() -> None:
    then, now = {"a": {"b": 1, "c": [1]}, "d": None}, {"a": {"b": 2, "c": [1]}, "e": {"f": 0}}
    assert differences(then, now) == {"a.b": (1, 2), "d": (None, "not set"), "e.f": ("not set", 0)}


def test_a_run_that_is_older_than_an_option_did_what_it_says_now() -> None:
    then = {"model": {"width": 8}}
    assert not differences(then, {"model": {"width": 8, "prefix": "causal"}, "eval": {"bleu_tokenize": "13a"}})
    assert differences(then, {"model": {"width": 8, "prefix": "visible"}}) == {"model.prefix": ("causal", "visible")}


def test_what_a_continuation_says(last: Path) -> None:
    """Also of another number of processes."""
    assert list(said_of_start(last, {}, 6, 1, False)) == [f"continuing from {last} (step 6)"]
    lines = list(said_of_start(last, {"seed": (0, 1)}, 24, 2, True))
    assert lines[1:3] == [
        "changed: seed: 0 then, 1 now",
        "trainer.max_steps was 6: the learning-rate schedule is stretched from here on",
    ]
    assert lines[3].startswith("1 processes then, 2 now: batches are others, since data.max_tokens is for one device")


def test_a_changed_rate_is_in_force_and_remembered(last: Path, tmp_path: Path) -> None:
    """A rate of zero moves nothing; the state of the optimizer would bring the old one back."""
    run = tmp_path / "run"
    train_in(run, SHORT)
    before = torch.load(last, weights_only=True)["state_dict"]
    metrics = train_in(run, "trainer.max_steps=9", "optimizer.lr=0.0", "resume_changed=true")
    content = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)
    assert content["global_step"] == 9
    assert all(torch.equal(before[name], value) for name, value in content["state_dict"].items())
    said = [{"step": 6, "options": {"optimizer.lr": [0.01, 0.0], "max_steps": [6, 9]}}]
    assert metrics["config"]["changes"] == content["hyper_parameters"]["config"]["changes"] == said
    assert {step for step, name in rows(run) if name == "train/loss"} == set(range(9))
