"""Runs at equal cost: what is adjusted, by how much, and that it says so and happens once."""

import sys
from pathlib import Path
from typing import Any

import pytest

import relformer.training.launch
from relformer.config import SLOTS, plain
from relformer.data.corpus import build_corpus
from relformer.errors import UserError
from relformer.sweeps.job import run_key
from relformer.training.launch import launch
from relformer.training.matching import built, flops, matching_overrides, training_batches
from tests.config.composed import SMALL, composed

PARTS = ("seed", "model", *SLOTS)


def parameters(*overrides: str, **parts: Any) -> int:
    config = composed(*overrides)
    corpus = build_corpus(plain(config, "data")["data"])
    return sum(p.numel() for p in built(plain(config, *PARTS) | parts, corpus).parameters())


@pytest.mark.parametrize(
    ("encoding", "model"),
    [(name, "model.activation=relu") for name in ("none", "t5", "shaw", "transformer_xl", "complex")]
    + [("transformer_xl", "model.activation=geglu")],
)
def test_the_feedforward_pays_for_the_parameters(encoding: str, model: str) -> None:
    chosen = (f"encoding={encoding}", model)
    (override, *rest), sentence = matching_overrides(composed(*chosen, "match=parameters"))
    assert rest == ["match=null", "matched=parameters"]
    bare, matched = parameters("encoding=none", model), parameters(*chosen, override)
    unit = parameters("encoding=none", model, "model.feedforward=129") - bare
    assert abs(matched - bare) <= unit / 2
    assert f"{matched:,} parameters" in sentence and f"without positions {bare:,}" in sentence
    assert (override == "model.feedforward=128") == (parameters(*chosen) - bare <= unit / 2)


@pytest.mark.parametrize("encoding", ["alibi", "shaw", "transformer_xl"])
def test_fewer_steps_pay_for_the_operations(encoding: str) -> None:
    config = composed(f"encoding={encoding}", "trainer.max_steps=1000", "match=flops")
    (override, *_), sentence = matching_overrides(config)
    steps = int(override.removeprefix("trainer.max_steps="))
    assert f"trainer.max_steps 1000 -> {steps}" in sentence
    batches = training_batches(config, corpus := build_corpus(plain(config, "data")["data"]))
    dense = {"attention": {"backend": "dense"}}
    ours = flops(built(plain(config, *PARTS) | dense, corpus), batches)
    bare = flops(built(plain(composed("encoding=none"), *PARTS) | dense, corpus), batches)
    assert steps * ours == pytest.approx(1000 * bare, abs=ours / 2)
    assert (steps == 1000) == (encoding == "alibi")
    again, _ = matching_overrides(composed(f"encoding={encoding}", "trainer.max_steps=1000", "match=flops", "seed=5"))
    assert again[0] == override


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["match=bytes"], "match=bytes is not a cost to match; choose one of parameters, flops, time"),
        (
            ["match=parameters", "encoding=transformer_xl", "model.feedforward=20"],
            "can't pay for the 16,640 parameters",
        ),
        (["match=flops", "trainer.max_epochs=2"], "max_epochs=2 can't be matched by flops"),
        (["match=time", "trainer.max_epochs=2"], "max_epochs=2 can't be matched by time"),
    ],
)
def test_a_cost_that_can_not_be_matched(overrides: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        matching_overrides(composed(*overrides))


def test_a_run_is_matched_once_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ranks that Lightning starts get the overrides of the first, adjusted ones among them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["train.py"])
    monkeypatch.setattr(relformer.training.launch, "entry", lambda: None)
    launch([*SMALL, "encoding=transformer_xl", "match=parameters"])
    arguments = sys.argv[1:]
    assert arguments[-3:] == ["model.feedforward=96", "match=null", "matched=parameters"]
    assert capsys.readouterr().out.count("model.feedforward 128 -> 96") == 1
    launch([*arguments, f"hydra.run.dir={tmp_path / 'other'}"])
    assert composed(*arguments).model.feedforward == 96 and composed(*arguments).matched == "parameters"
    assert "model.feedforward" not in capsys.readouterr().out


def test_jobs_that_are_matched_are_other_jobs() -> None:
    keys = {run_key(_root_=composed(*more)) for more in ([], ["match=parameters"], ["match=flops"], ["match=time"])}
    assert len(keys) == 4
