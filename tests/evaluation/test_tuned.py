"""A comparison says what chose its learning rates, and never compares the runs that did."""

import json
from pathlib import Path
from typing import Any

import pytest

from relformer.evaluation.compare import compare_runs
from relformer.evaluation.groups import find_runs
from relformer.evaluation.tuned import tuning_key
from tests.evaluation.simulated import config, write_numbers


def write_sweep(home: Path, **alibi: Any) -> Path:
    """Two encodings of five seeds; alibi at 0.002 out of three rates, t5 at 0.001."""
    groups = []
    for encoding, rate, more in (("t5", 0.001, {}), ("alibi", 0.002, alibi)):
        for seed in range(5):
            made = config(seed, encoding, optimizer={"name": "adam", "lr": rate})
            path = write_numbers(home / "runs" / f"{encoding}{seed}", made, 0.5)
        key = tuning_key(json.loads(path.read_text())["config"])
        record: dict[str, Any] = {"overrides": [f"encoding={encoding}"], "rates": [0.0005, 0.001, 0.002]}
        record |= {"seeds": [70, 71], "losses": [[0.5, 0.7], [0.25, 0.35], [0.75, None]], "chosen": rate, "key": key}
        groups.append(record | more)
        tuning = config(70, encoding, optimizer={"name": "adam", "lr": 0.0005})
        write_numbers(home / "runs" / "tuning" / f"{encoding}70", tuning, 0.9)
    (home / "runs" / "tuning.json").write_text(json.dumps({"objective": "val/iid/loss", "groups": groups}))
    return home


def test_what_was_chosen_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    latex, html = tmp_path / "all.tex", tmp_path / "all.html"
    comparison = compare_runs([str(write_sweep(tmp_path))], latex=latex, html=html)
    assert sorted(comparison.labels) == ["alibi, optimizer.lr=0.002", "t5, optimizer.lr=0.001"]
    assert [sorted(group.runs) for group in comparison.groups] == [[0, 1, 2, 3, 4]] * 2
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in capsys.readouterr().out.splitlines()]
    assert ["runs", "0.0005", "0.001", "0.002", "chosen", "seeds"] in lines
    assert ["t5, optimizer.lr=0.001", "0.6000", "0.3000", "diverged", "0.001", "70, 71"] in lines
    assert "Learning rates tried" in latex.read_text() and "Learning rates tried" in html.read_text()


def test_runs_that_chose_are_compared_only_when_named(tmp_path: Path) -> None:
    home = write_sweep(tmp_path)
    assert len(find_runs([str(home)])) == len(find_runs([str(home / "runs")])) == 10
    assert len(find_runs([str(home / "runs" / "tuning")])) == 2
    (home / "runs" / "tuning.json").unlink()
    assert len(find_runs([str(home)])) == 12


ALIBI, T5 = "alibi, optimizer.lr=0.002", "t5, optimizer.lr=0.001"


@pytest.mark.parametrize(
    ("alibi", "line"),
    [
        ({}, f"{ALIBI}: its learning rate is the largest that was tried: one beyond it may be better"),
        ({"seeds": [4, 70]}, f"{ALIBI}: seeds 4 chose its learning rate: they are not fresh"),
        (
            {"chosen": 0.0005},  # the runs have another rate
            f"all: unequal tuning ({ALIBI}: nothing; {T5}: 0.0005, 0.001, 0.002 x 2 seeds)",
        ),
    ],
)
def test_what_is_not_fair_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], alibi: dict[str, Any], line: str
) -> None:
    compare_runs([str(write_sweep(tmp_path, **alibi))])
    said = capsys.readouterr().out.splitlines()
    assert line in said
    assert not any(each.startswith("t5") and "tried" in each for each in said)
    assert any("unequal tuning" in each for each in said) == bool(alibi)
