"""A search: one study, told by the objectives of its jobs; it goes on where it stopped."""

import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from relformer.config import compose
from relformer.errors import UserError
from relformer.sweeps.job import Job
from relformer.sweeps.record import Record, read_record
from relformer.sweeps.search import Search
from tests.config.composed import SMALL

pytest.importorskip("optuna")
SPACE = ("encoding=t5,alibi", "optimizer.lr=tag(log,interval(1e-4,1e-1))", "model.width=range(32,97,32)")


def search(home: Path, *overrides: str) -> Search:
    given = [*SMALL, "sweep=optuna", f"hydra.sweep.dir={home}", *overrides]
    return Search(compose(given), given, Record(home))


def loss(job: Job) -> float:
    """Least at a rate of 0.01."""
    assert job.parameters is not None
    return abs(math.log10(job.parameters["optimizer.lr"]) + 2)


def run(study: Search, value: Callable[[Job], float | None] = loss) -> list[Job]:
    """What a sweep does: one after another, each finished with a loss, or failed where that is None."""
    done = []
    for job in study.jobs():
        done.append(job)
        if not job.finished and (result := value(job)) is not None:
            job.directory.mkdir(parents=True)
            figures = {"last": {"val_iid": {"loss": result, "exact_match": -result}}}
            (job.directory / "metrics.json").write_text(json.dumps({"checkpoint": "last", "checkpoints": figures}))
            (job.directory / "run_key").write_text(job.key)
        job.exit_code = 0 if job.finished else 1
        study.changed(job)
        study.record.write()
    return done


def parameters(jobs: Sequence[Job]) -> list[dict[str, object] | None]:
    return [job.parameters for job in jobs]


def test_trials_are_ordinary_jobs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = search(tmp_path, *SPACE, "sweep.trials=5")
    done = run(study)
    assert len(done) == 5 and len({job.directory for job in done}) == 5
    for job in done:
        given = dict(each.split("=", 1) for each in job.overrides)
        assert given["encoding"] in ("t5", "alibi") and given["model.width"] in ("32", "64", "96")
        assert 1e-4 <= float(given["optimizer.lr"]) <= 1e-1
        assert job.parameters is not None and float(given["optimizer.lr"]) == job.parameters["optimizer.lr"]
    best = study.best()
    assert best is min(done, key=loss)
    assert f"(best: trial {best.number}, {loss(best):.4f})" in capsys.readouterr().out.splitlines()[-1]


def test_an_interrupted_search_proposes_what_it_would_have(tmp_path: Path) -> None:
    """A trial that failed is tried again, one that finished is not."""
    whole = run(search(tmp_path / "whole", *SPACE, "sweep.trials=4"))
    run(search(tmp_path / "parts", *SPACE, "sweep.trials=2"))
    again = search(tmp_path / "parts", *SPACE, "sweep.trials=4")
    tried: list[int] = []
    parts = run(again, lambda job: tried.append(job.number) or loss(job))
    assert parameters(parts) == parameters(whole) and tried == [2, 3]
    assert parameters(read_record(tmp_path / "parts")) == parameters(whole)


def test_a_search_goes_on_with_more_choices_and_is_refused_with_fewer(tmp_path: Path) -> None:
    run(search(tmp_path, "encoding=t5,alibi", "sweep.trials=2"), lambda job: 1.0)
    more = run(search(tmp_path, "encoding=t5,alibi,none", "sweep.trials=4"), lambda job: 1.0)
    tried = {str(job.parameters) for job in more[:2]}
    gone = next(value for value in ("t5", "alibi") if value in str(tried))
    others = ",".join(value for value in ("t5", "alibi", "none") if value != gone)
    with pytest.raises(UserError, match=f"holds a search of another space .apart in encoding={gone}"):
        search(tmp_path, f"encoding={others}", "sweep.trials=4")
    with pytest.raises(UserError, match=r"apart in model\.width"):
        search(tmp_path, "encoding=t5,alibi,none", "model.width=32,64", "sweep.trials=4")


@pytest.mark.parametrize(
    ("before", "after", "gone"),
    [
        ("optimizer.lr=interval(0.0001,0.0002)", "optimizer.lr=interval(0.001,0.01)", "optimizer.lr=0.0001"),
        ("model.width=range(32,65,32)", "model.width=range(96,161,32)", "model.width="),
        ('sweep.runs=["encoding=t5"]', 'sweep.runs=["encoding=alibi"]', "sweep.runs"),
    ],
)
def test_a_narrower_search_is_refused(tmp_path: Path, before: str, after: str, gone: str) -> None:
    run(search(tmp_path, before, "sweep.trials=1"), lambda job: 1.0)
    search(tmp_path, before, "sweep.trials=2")
    with pytest.raises(UserError, match=f"holds a search of another space .apart in {gone}"):
        search(tmp_path, after, "sweep.trials=2")


@pytest.mark.parametrize("value", [None, math.nan])
def test_a_study_goes_on_without_a_trial_that_failed(tmp_path: Path, value: float | None) -> None:
    study = search(tmp_path, *SPACE, "sweep.trials=3")
    done = run(study, lambda job: value if job.number == 0 else loss(job))
    assert study.best() is min(done[1:], key=loss)
    assert [trial.state.name for trial in study.study.trials] == ["FAIL", "COMPLETE", "COMPLETE"]


def test_shares_are_maximised(tmp_path: Path) -> None:
    study = search(tmp_path, *SPACE, "sweep.trials=3", "sweep.objective=val/iid/exact_match")
    assert study.best() is None
    done = run(study)
    assert study.best() is min(done, key=loss) and study.study.best_value == -loss(min(done, key=loss))


def test_lines_are_choices(tmp_path: Path) -> None:
    lines = 'sweep.runs=["encoding=t5 encoding.num_buckets=16","encoding=alibi"]'
    done = run(search(tmp_path, lines, SPACE[1], "sweep.trials=6"))
    assert {"encoding=alibi", "encoding=t5"} == {each for job in done for each in job.own if each.startswith("enc")} - {
        "encoding.num_buckets=16"
    }


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["encoding=t5"], "has nothing to search"),
        (["seed=1,2", "sweep.trials=0"], "trials=0 must be at least 1"),
        (["optimizer.lr=interval(1e-2,1e-4)"], r"interval\(1e-2,1e-4\) can't be searched: .*low <= high"),
        (["optimizer.lr=tag(log,interval(0,1))"], "can't be searched: .*low > 0"),
        (["model.width=range(5,1)"], "can't be searched: it has no values"),
        (['sweep.runs=["seed=1,2","seed=3"]'], "seed=1,2 in a line of sweep.runs lists several values"),
        (["encoding=t5,alibi", "encoding.num_buckets=16"], r"(?s)encoding=alibi: no config key.*into its line"),
    ],
)
def test_what_can_not_be_searched_is_said(tmp_path: Path, overrides: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        search(tmp_path, *overrides)
    assert not list(tmp_path.iterdir())


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UserError, match=r"pip install 'relformer\[optuna\]'"):
        search(tmp_path, *SPACE)
