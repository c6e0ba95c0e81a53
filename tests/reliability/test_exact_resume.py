"""A run that was stopped anywhere and continued is the run that was not, to the last bit.

Here it is stopped by an exception, in this process; `test_killed.py` does the same with SIGKILL.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from relformer import faults
from relformer.training.run import train
from relformer.training.sealing import read_step
from tests.config.composed import checked, without_hydra
from tests.reliability.tiny import TINY, VARIANTS, rows, state, unequal

QUICK = ("again and again", "ema")
"""What the ordinary suite has of these."""
PLACES = {
    "before its first checkpoint": ["step2"],
    "in the first validation": ["validation4"],
    "in the midst of an epoch": ["step8"],
    "at an epoch's end": ["step10", "step11"],
    "in a validation that a checkpoint waits for": ["validation12"],
    "while writing a checkpoint": ["checkpoint9"],
    "before a checkpoint has its name": ["rename15"],
    "again and again": ["step5", "validation8", "checkpoint12", "step23"],
    "in its last evaluation": ["validation24*2"],
}


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    faults.arm(None)


def run_once(directory: Path, *overrides: str) -> None:
    config = checked(*TINY, *overrides, f"paths.run_dir={directory}", "resume=auto")
    train(without_hydra(config))


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The run of a variant that nothing happens to, trained once."""
    made: dict[str, Path] = {}

    def run(variant: str) -> Path:
        if variant not in made:
            made[variant] = tmp_path_factory.mktemp(variant) / "run"
            run_once(made[variant], *VARIANTS[variant])
        return made[variant]

    return run


def stopped_at(run: Path, place: str, *overrides: str) -> None:
    faults.arm(f"raise@{place}")
    with pytest.raises(RuntimeError, match="RELFORMER_FAULT: raise"):
        run_once(run, *overrides)
    faults.arm(None)


def same(run: Path, whole: Path) -> None:
    assert unequal(rows(run), rows(whole)) == []
    names = [{path.name for path in each.glob("checkpoints/*")} for each in (run, whole)]
    assert names[0] == names[1] >= {"last.ckpt", "best.ckpt", "previous.ckpt"}
    for name in names[0]:
        assert unequal(state(run / "checkpoints" / name), state(whole / "checkpoints" / name)) == [], name
    assert not list(run.rglob("*.tmp*"))


def slow_but(names: Iterable[str]) -> list[Any]:
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in names]


@pytest.mark.parametrize("where", slow_but(PLACES))
def test_stopped_anywhere(uninterrupted: Callable[[str], Path], tmp_path: Path, where: str) -> None:
    run = tmp_path / "run"
    for place in PLACES[where]:
        stopped_at(run, place)
    run_once(run)
    same(run, uninterrupted("plain"))


@pytest.mark.slow
@pytest.mark.parametrize("missing", [["last"], ["last", "previous"]], ids=["previous", "best"])
def test_from_whichever_is_left(uninterrupted: Callable[[str], Path], tmp_path: Path, missing: list[str]) -> None:
    run = tmp_path / "run"
    stopped_at(run, "step12")
    for name in missing:
        (run / "checkpoints" / f"{name}.ckpt").write_bytes(b"damaged")
    run_once(run)
    same(run, uninterrupted("plain"))


@pytest.mark.parametrize("variant", slow_but(VARIANTS.keys() - {"plain"}))
def test_whatever_it_does_besides(uninterrupted: Callable[[str], Path], tmp_path: Path, variant: str) -> None:
    whole, run = uninterrupted(variant), tmp_path / "run"
    for place in ("step6", "validation8", "checkpoint9", "step11"):
        stopped_at(run, place, *VARIANTS[variant])
    run_once(run, *VARIANTS[variant])
    same(run, whole)
    if variant == "early_stopping":
        assert 12 <= read_step(run / "checkpoints" / "last.ckpt") < 24


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["plain", "ema", "early_stopping"])
def test_a_finished_run_started_again_stays_as_it_is(
    uninterrupted: Callable[[str], Path], tmp_path: Path, variant: str
) -> None:
    whole, run = uninterrupted(variant), tmp_path / "run"
    shutil.copytree(whole, run)
    run_once(run, *VARIANTS[variant])
    same(run, whole)
    figures = [json.loads((each / "metrics.json").read_text()) for each in (run, whole)]
    assert figures[0]["checkpoints"] == figures[1]["checkpoints"] and figures[0]["cost"] == figures[1]["cost"]
    assert figures[0]["cost"]["seconds_per_step"] > 0


@pytest.mark.slow
def test_a_longer_run_goes_on_from_the_trained_weights_not_from_their_average(tmp_path: Path) -> None:
    """With a constant rate, which does not ask how long a run is: 12 steps and then to 24, or 24 at once."""
    options = (*VARIANTS["ema"], "scheduler=constant", "scheduler.warmup_steps=0")
    run_once(tmp_path / "long", *options)
    run_once(tmp_path / "run", *options, "trainer.max_steps=12")
    run_once(tmp_path / "run", *options)
    figures = [rows(tmp_path / each) for each in ("run", "long")]
    trained = [{key: value for key, value in each.items() if key[1] == "train/loss"} for each in figures]
    assert len(trained[0]) == 24 and unequal(*trained) == []
    ends = [state(tmp_path / each / "checkpoints" / "last.ckpt") for each in ("run", "long")]
    told = "/hyper_parameters/config/changes/"  # that it was made longer
    assert [key for key in unequal(*ends) if not key.startswith(("/loops/", "/epoch", told))] == []
