"""Runs side by side: grouped by everything but the seed, nothing counted twice, nothing hidden."""

import json
import os
import statistics
from pathlib import Path
from typing import Any

import pytest

from relformer.errors import UserError
from relformer.evaluation.compare import compare_runs, find_runs, group_runs, label_groups, spread


def config(seed: int = 0, encoding: str = "t5", **more: Any) -> dict[str, Any]:
    return {"seed": seed, "encoding": {"name": encoding}, "data": {"name": "reverse", "seed": 0}, **more}


def write(directory: Path, made: dict[str, Any], longer: float, iid: float = 1.0, age: int = 0, **more: Any) -> Path:
    """A finished run that was written so many seconds ago."""
    sets = {
        "step": 9,
        "test_iid": {"exact_match": iid},
        "test_longer": {"exact_match": longer, "correct_prefix": longer},
    }
    cost = {"parameters": 1000, "position_parameters": 8, "seconds_per_step": 0.25}
    run = {
        "config": made | {"vocabulary": None},
        "checkpoint": "last",
        "checkpoints": {"last": sets},
        "cost": cost,
    } | more
    directory.mkdir(parents=True)
    path = directory / "metrics.json"
    path.write_text(json.dumps(run))
    os.utime(path, (1e9 - age, 1e9 - age))
    return path


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


def test_groups_differ_in_anything_but_the_seed(tmp_path: Path) -> None:
    kinds = [
        config(),
        config(encoding="alibi"),
        config(data={"name": "reverse", "seed": 1}),
        config(model={"width": 8}),
    ]
    for number, kind in enumerate(kinds):
        for seed in range(3):
            write(tmp_path / f"{number}_{seed}", kind | {"seed": seed}, longer=number / 10 + seed / 100)
    groups = group_runs(find_runs([str(tmp_path)]))
    assert sorted(sorted(group.runs) for group in groups) == [[0, 1, 2]] * 4
    found = sorted(sorted(group.values("test_longer")) for group in groups)
    assert found == [[pytest.approx(number / 10 + seed / 100) for seed in range(3)] for number in range(4)]


def test_of_two_runs_with_one_seed_the_newer_counts_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "b", config(), longer=0.1, age=50)
    write(tmp_path / "a", config(), longer=0.2, age=10)
    write(tmp_path / "c", config(), longer=0.3, age=90)
    (group,) = group_runs(find_runs([str(tmp_path)]))
    assert group.values("test_longer") == [0.2]
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2 and str(tmp_path / "a") in said[1]


def test_the_checkpoint_that_a_run_reports_counts(tmp_path: Path) -> None:
    both = {"last": {"test_longer": {"exact_match": 0.1}}, "best_val": {"test_longer": {"exact_match": 0.7}}}
    write(tmp_path / "a", config(), longer=0.0, checkpoints=both, checkpoint="best_val")
    (group,) = group_runs(find_runs([str(tmp_path)]))
    assert group.values("test_longer") == [0.7]
    assert group.values("test_iid") == []


def test_evaluations_are_no_runs_and_no_run_is_found_twice(tmp_path: Path) -> None:
    path = write(tmp_path / "runs" / "a", config(), longer=0.1)
    write(tmp_path / "runs" / "a" / "evaluations" / "later", config(), longer=0.9)
    places = [tmp_path, tmp_path / "runs", tmp_path / "runs" / "a", path]
    assert find_runs(map(str, places)) == [path]
    with pytest.raises(UserError, match="no finished run"):
        find_runs([str(tmp_path / "runs" / "a" / "evaluations")])


def test_the_table_is_the_mean_spread_and_number_of_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = {"t5": [0.5, 0.25, 0.4, 0.3, 0.6], "alibi": [0.9, 0.7], "none": [0.0]}
    for encoding, exact in values.items():
        for seed, longer in enumerate(exact):
            write(
                tmp_path / f"{encoding}{seed}", config(seed, encoding), longer, iid=1.0 if encoding != "none" else 0.5
            )
    groups = compare_runs([str(tmp_path)])
    assert len(groups) == 3
    printed = capsys.readouterr().out
    table = rows(printed)
    assert [row[0] for row in table[2:]] == ["alibi", "t5", "none"]
    column = next(number for number, head in enumerate(table[0]) if head == "test_longer, exact match")
    for row in table[2:]:
        exact = values[row[0]]
        assert row[column] == spread(exact)
        assert str(len(exact)) in row
        assert "1,000 (8)" in row and "0.250" in row
    warnings = [line for line in printed.splitlines() if line and not line.startswith("|")]
    seeds = [line for line in warnings if "fewer than 5 can't separate" in line]
    assert sorted(line.split(":")[0] for line in seeds) == ["alibi", "none"]
    weak = [line for line in warnings if "in distribution" in line]
    assert [line.split(":")[0] for line in weak] == ["none"] and "1 of 1 runs" in weak[0] and "0.98" in weak[0]


def test_a_mean_never_stands_alone() -> None:
    values = [0.25, 0.5, 0.9]
    text = spread(values)
    deviation = statistics.stdev(values)
    assert text == f"{sum(values) / 3:.3f} ± {deviation:.3f} (0.250 - 0.900)"
    assert spread([0.5]) == "0.500 (0.500 - 0.500)"
    assert spread([]) == "-"


def test_labels_are_what_sets_groups_apart() -> None:
    def labels(*configs: dict[str, Any]) -> list[str]:
        return label_groups(list(configs))

    assert labels(config(encoding="t5"), config(encoding="alibi")) == ["t5", "alibi"]
    assert labels(config()) == ["t5"]
    widths = [config(model={"width": width}) for width in (8, 16)]
    assert labels(*widths) == ["model.width=8", "model.width=16"]
    both = labels(config(model={"width": 8}), config(encoding="alibi", model={"width": 16}))
    assert both == ["encoding.name=t5, model.width=8", "encoding.name=alibi, model.width=16"]
    assert len(set(labels(config(), config(decoder_encoding={"name": "alibi"})))) == 2


def test_a_foreign_metrics_file_blocks_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "run", config(), longer=0.1)
    for name, text in (("broken", "{"), ("foreign", '{"loss": 1}'), ("list", "[]")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.json").write_text(text)
    assert len(compare_runs([str(tmp_path)])) == 1
    said = capsys.readouterr().err
    assert all(f"{name}/metrics.json is left out" in said for name in ("broken", "foreign", "list"))
    with pytest.raises(UserError, match=r"no metrics\.json of a run"):
        compare_runs([str(tmp_path / "foreign")])
