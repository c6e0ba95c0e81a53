"""RoPE's scaling changed on a finished run, as position interpolation and its heirs are meant to be used."""

from pathlib import Path
from typing import Any

import pytest

from relformer.errors import UserError
from relformer.training.evaluate import evaluate_run
from relformer.training.run import said, train
from tests.config.composed import checked, without_hydra

ANYWHERE = ("trainer.accelerator=cpu", "data.examples_per_length=4")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("run")
    options = ("encoding=rope", "trainer.accelerator=cpu", "trainer.max_steps=2", "logger=csv")
    config = checked(*options, f"paths.run_dir={directory}")
    train(without_hydra(config))
    return directory


def loss(run: Path, *overrides: str) -> float:
    """Beyond the trained length, under a changed scaling."""
    found: Any = evaluate_run(str(run), [*ANYWHERE, *overrides])["test_longer"]["loss"]
    return float(found)


def test_a_finished_run_takes_another_scaling(run: Path) -> None:
    plain = loss(run)
    yarn = ("encoding.scaling.type=yarn", "encoding.scaling.original_length=11")
    assert loss(run, *yarn, "encoding.scaling.factor=1") == pytest.approx(plain, abs=1e-6)
    assert abs(loss(run, *yarn, "encoding.scaling.factor=4") - plain) > 1e-4
    assert len(list(run.glob("evaluations/*"))) == 3


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "encoding.base=500",
            r"^'encoding.base=500' can't change after training; what can is data, .*encoding.scaling",
        ),
        ("encoding.scalings.factor=2", r"can't change after training"),
        (
            "encoding.scaling.facter=2",
            r"^no config key 'encoding.scaling.facter'; did you mean '.*factor'",
        ),
        ("encoding.scaling.factor=abc", r"^encoding.scaling.factor: 'abc' is not a number$"),
        ("encoding.scaling.type=yarm", r"^encoding.scaling.type='yarm' is not one of none, linear"),
        ("encoding.scaling.type=yarn", r"^encoding.scaling.factor=None must be set"),
        ("cross_encoding.scaling.type=yarn", r"^no config key 'cross_encoding.scaling.type'"),
    ],
)
def test_what_a_finished_run_does_not_take(run: Path, override: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        evaluate_run(str(run), [*ANYWHERE, override])


def test_a_run_says_what_of_its_scaling_was_changed() -> None:
    scaling = {"type": "linear", "factor": 2.0, "beta_fast": 32.0}
    assert list(said({"name": "rope", "share": None, "layers": "all", "scaling": scaling})) == [
        "scaling.type=linear",
        "scaling.factor=2.0",
    ]
