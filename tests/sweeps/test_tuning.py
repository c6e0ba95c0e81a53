"""Learning rates chosen before a comparison: at equal budgets, by val_iid alone, with seeds that are not tested."""

import json
import math
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest

from relformer.config import compose
from relformer.errors import UserError
from relformer.evaluation.tuned import read_record
from relformer.sweeps.job import FINISHED, run_key
from relformer.sweeps.planning import combined
from relformer.sweeps.tuning import combinations, tuned_sweeps
from relformer.training.launch import launch
from tests.config.composed import SMALL, composed

RATES = "sweep.learning_rates=[0.004,0.001]"
TUNES = (*SMALL, "experiment=tune_and_compare", "encoding=t5,alibi", RATES, "sweep.tuning_seeds=[70]", "seed=0,1")
LOSSES = {("t5", 0.001): 0.5, ("t5", 0.004): 0.25, ("alibi", 0.001): 0.0, ("alibi", 0.004): math.nan}


@cache
def key(encoding: str, rate: float) -> str:
    return run_key(
        _root_=composed(
            *SMALL, "experiment=tune_and_compare", f"encoding={encoding}", f"optimizer.lr={rate}", "seed=70"
        )
    )


def trained(home: Path, losses: dict[tuple[str, float], float], seen: list[Sequence[str]]) -> Callable[..., None]:
    """A first stage that does what Hydra would: a finished run for every encoding, rate and seed."""

    def sweep(more: Sequence[str]) -> None:
        seen.append(more)
        record = json.loads((home / "tuning.json").read_text())["groups"]
        assert [each["chosen"] for each in record if not each["key"]] == [None, None]
        for (encoding, rate), loss in losses.items():
            run = home / "tuning" / f"{encoding}-{rate}"
            run.mkdir(parents=True, exist_ok=True)
            (run / FINISHED).write_text(f"{key(encoding, rate)}\n")
            config = {"seed": 70, "encoding": {"name": encoding}, "optimizer": {"lr": rate}}
            figures = {"last": {"val_iid": {"loss": loss}, "test_longer": {"loss": -rate}}}
            (run / "metrics.json").write_text(
                json.dumps({"config": config, "checkpoint": "last", "checkpoints": figures})
            )

    return sweep


def tuned(home: Path, sweep: Callable[..., None], *more: str) -> list[list[str]]:
    overrides = [*TUNES, f"hydra.sweep.dir={home}", *more]
    return tuned_sweeps(compose(overrides), overrides, sweep)


def test_each_encoding_gets_the_rate_of_its_least_loss(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Sequence[str]] = []
    for _ in range(2):  # the second time all is finished, and the record stays as it is
        sweeps = tuned(tmp_path, trained(tmp_path, LOSSES, seen))
        assert sweeps == [
            ["encoding=t5", "optimizer.lr=0.004", "seed=0,1", "sweep.n=null", "sweep.runs=null"],
            ["encoding=alibi", "optimizer.lr=0.001", "seed=0,1", "sweep.n=null", "sweep.runs=null"],
        ]
        record = read_record(tmp_path / "tuning.json")
        assert [each.chosen for each in record] == [0.004, 0.001]
        assert [each.losses for each in record] == [[[0.5], [0.25]], [[0.0], [None]]]
        assert all("encoding=" in " ".join(each.overrides) and each.seeds == [70] for each in record)
    assert seen[0] == [
        "optimizer.lr=0.001,0.004",
        "seed=70",
        "sweep.n=null",
        f'hydra.sweep.dir="{tmp_path / "tuning"}"',
    ]
    said = capsys.readouterr().out
    assert "chosen      encoding=t5   optimizer.lr=0.004   (val/iid/loss 0.001: 0.5000, 0.004: 0.2500)" in said


def test_seeds_may_be_counted(tmp_path: Path) -> None:
    """`sweep.n` is of the runs that count; each stage lists its seeds."""
    counted = [each for each in TUNES if not each.startswith("seed=")]
    overrides = [*counted, f"hydra.sweep.dir={tmp_path}", "seed=5", "sweep.n=2"]
    seen: list[Sequence[str]] = []
    more = tuned_sweeps(compose(overrides), overrides, trained(tmp_path, LOSSES, seen))
    for stage, seeds in ((seen[0], {"70"}), (more[0], {"5", "6"})):
        given = [*overrides, *stage]
        jobs = combined(compose(given), given)
        assert {each for job in jobs for each in job if each.startswith("seed=")} == {f"seed={n}" for n in seeds}


def test_each_line_of_a_list_has_its_own_rate(tmp_path: Path) -> None:
    lines = 'sweep.runs=["encoding=t5","encoding=alibi"]'
    overrides = [*(each for each in TUNES if each != "encoding=t5,alibi"), lines, f"hydra.sweep.dir={tmp_path}"]
    more = tuned_sweeps(compose(overrides), overrides, trained(tmp_path, LOSSES, []))
    jobs = [job for each in more for job in combined(compose([*overrides, *each]), [*overrides, *each])]
    rates = {(str(config.encoding.name), config.optimizer.lr) for config in map(compose, jobs)}
    assert rates == {("t5", 0.004), ("alibi", 0.001)} and len(jobs) == 4


def test_a_budget_must_be_spent_whole(tmp_path: Path) -> None:
    some = {key: loss for key, loss in LOSSES.items() if key != ("alibi", 0.004)}
    with pytest.raises(UserError, match="1 runs that tune encoding=alibi did not finish; repeat the command"):
        tuned(tmp_path, trained(tmp_path, some, []))
    assert [each.chosen for each in read_record(tmp_path / "tuning.json")] == [None, None]


def test_some_rate_must_train(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no learning rate of 0\.001,0\.004 trains encoding=alibi for every seed"):
        tuned(tmp_path, trained(tmp_path, LOSSES | {("alibi", 0.001): math.nan}, []))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["sweep.learning_rates=[0.1]"], "is not a list of two or more different positive numbers"),
        (["sweep.learning_rates=[0.1,0.1]"], "is not a list of two or more different positive numbers"),
        (["sweep.learning_rates=[0.1,0]"], "is not a list of two or more different positive numbers"),
        (["sweep.tuning_seeds=null"], r"tuning_seeds=\[\] is not a list of different seeds to tune with"),
        (["sweep.tuning_seeds=[3,1]"], r"tuning_seeds=\[1, 3\] has seeds of the runs that count \(1\)"),
        (["sweep.objective=val/longer/loss"], "they are chosen by val/iid/loss"),
        (["sweep.objective=test/iid/loss", "sweep.tune_on_test=true"], "they are chosen by val/iid/loss"),
        (["optimizer.lr=0.1"], r"optimizer\.lr=0\.1 and sweep\.learning_rates both set the learning rate"),
        (["encoding=t5,alibi", "encoding.num_buckets=16,32"], "no config key|Key 'num_buckets'|Could not override"),
    ],
)
def test_an_unfair_plan_is_refused(tmp_path: Path, more: list[str], message: str) -> None:
    def never(more: Sequence[str]) -> None:
        raise AssertionError

    with pytest.raises(UserError, match=message):
        tuned(tmp_path, never, *more)
    assert not list(tmp_path.iterdir())


def test_all_that_a_sweep_varies_is_tuned() -> None:
    overrides = [*SMALL, "experiment=compare_encodings", "encoding=t5", "model.width=64,32", "+trainer.benchmark=true"]
    found = combinations(compose(overrides), overrides)
    assert [str(each) for each in found] == ["model.width=64", "model.width=32"]
    assert all(each.seeds == [0, 1, 2, 3, 4] and "encoding=t5" in each.overrides for each in found)


def test_one_run_tunes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py"])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"sweep\.learning_rates is for a sweep: add -m, or leave it out"):
        launch([*SMALL, RATES])
    assert not list(tmp_path.iterdir())
