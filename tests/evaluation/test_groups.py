"""Finished runs are grouped by everything but the seed, nothing counted twice, nothing hidden."""

import json
from pathlib import Path
from typing import Any

import pytest

from relformer.errors import UserError
from relformer.evaluation.groups import edges_of, find_runs, group_runs, label_groups
from tests.evaluation.simulated import config, write_groups, write_numbers


def test_groups_differ_in_anything_but_the_seed(tmp_path: Path) -> None:
    kinds = [
        config(),
        config(encoding="alibi"),
        config(data={"name": "reverse", "seed": 1}),
        config(model={"width": 8}),
    ]
    for number, kind in enumerate(kinds):
        for seed in range(3):
            write_numbers(tmp_path / f"{number}_{seed}", kind | {"seed": seed}, longer=number / 10 + seed / 100)
    groups = group_runs(find_runs([str(tmp_path)]))
    assert sorted(sorted(group.runs) for group in groups) == [[0, 1, 2]] * 4
    found = sorted(sorted(group.values("test_longer")) for group in groups)
    assert found == [[pytest.approx(number / 10 + seed / 100) for seed in range(3)] for number in range(4)]


def test_of_two_runs_with_one_seed_the_newer_counts_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_numbers(tmp_path / "b", config(), longer=0.1, age=50)
    write_numbers(tmp_path / "a", config(), longer=0.2, age=10)
    write_numbers(tmp_path / "c", config(), longer=0.3, age=90)
    (group,) = group_runs(find_runs([str(tmp_path)]))
    assert group.values("test_longer") == [0.2]
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2 and str(tmp_path / "a") in said[1]


def test_the_checkpoint_that_a_run_reports_counts(tmp_path: Path) -> None:
    both = {"last": {"test_longer": {"exact_match": 0.1}}, "best_val": {"test_longer": {"exact_match": 0.7}}}
    write_numbers(tmp_path / "a", config(), longer=0.0, checkpoints=both, checkpoint="best_val")
    (group,) = group_runs(find_runs([str(tmp_path)]))
    assert group.values("test_longer") == [0.7]
    assert group.values("test_iid") == []


def test_evaluations_are_no_runs_and_no_run_is_found_twice(tmp_path: Path) -> None:
    path = write_numbers(tmp_path / "runs" / "a", config(), longer=0.1)
    write_numbers(tmp_path / "runs" / "a" / "evaluations" / "later", config(), longer=0.9)
    places = [tmp_path, tmp_path / "runs", tmp_path / "runs" / "a", path]
    assert find_runs(map(str, places)) == [path]
    with pytest.raises(UserError, match="no finished run"):
        find_runs([str(tmp_path / "runs" / "a" / "evaluations")])


@pytest.mark.parametrize(
    ("part", "value", "why"),
    [
        ("exact_match", float("nan"), "test_longer, exact_match is nan, which is not in 0 to 1"),
        ("exact_match", 5.0, "test_longer, exact_match is 5.0"),
        ("exact_match", None, "TypeError"),
        ("by_length", [{"exact_match": 0.5, "n": 3}], "KeyError: 'min_length'"),
    ],
)
def test_files_with_impossible_figures_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], part: str, value: Any, why: str
) -> None:
    paths = [write_numbers(tmp_path / str(seed), config(seed), longer=0.1) for seed in range(2)]
    content = json.loads(paths[1].read_text())
    content["checkpoints"]["last"]["test_longer"][part] = value
    paths[1].write_text(json.dumps(content))
    (group,) = group_runs(paths)
    said = capsys.readouterr().err
    assert list(group.runs) == [0] and f"{paths[1]} is left out" in said and why in said


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            {"generated": {"test_iid": {"bleu": {"score": 200.0, "signature": "-"}}}},
            "bleu is 200.0, which is not in 0",
        ),
        ({"config": config() | {"seed": [0]}}, "config.seed is [0], which is no integer"),
        ({"cost": None}, "TypeError"),
    ],
)
def test_files_that_are_no_runs_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], why: str
) -> None:
    path = write_numbers(tmp_path / "a", config(), longer=0.1)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(UserError, match=r"no metrics\.json of a run among"):
        group_runs([path])
    assert why in capsys.readouterr().err


def test_labels_are_what_sets_groups_apart() -> None:
    def labels(*configs: dict[str, Any]) -> list[str]:
        return label_groups(list(configs))

    assert labels(config(encoding="t5"), config(encoding="alibi")) == ["t5", "alibi"]
    assert labels(config()) == ["t5"]
    widths = [config(model={"width": width}) for width in (8, 16)]
    assert labels(*widths) == ["model.width=8", "model.width=16"]
    both = labels(config(model={"width": 8}), config(encoding="alibi", model={"width": 16}))
    assert both == ["t5, model.width=8", "alibi, model.width=16"]
    assert len(set(labels(config(), config(decoder_encoding={"name": "alibi"})))) == 2
    assert labels(config(), config(ema={"decay": 0.99})) == ["without ema", "ema.decay=0.99"]
    longer = [{"step": 6, "options": {"max_steps": [6, 9]}}]
    assert labels(config(), config(changes=longer)) == ["without changes", "changed at step 6"]


def test_buckets_of_lengths_weigh_sentences_alike(tmp_path: Path) -> None:
    (group,) = group_runs(find_runs([str(write_groups(tmp_path, {"t5": 0.5}, seeds=2, each=3))]))
    edges = edges_of([group], "test_longer")
    assert edges == [(n, n) for n in range(13, 21)]
    whole = group.by_length("test_longer", [(13, 16), (17, 20), (21, 30)])
    assert list(whole) == [(13, 16), (17, 20)]
    for figure in ("exact_match", "correct_prefix"):
        halves = group.by_length("test_longer", whole, figure)
        means = [sum(values) / 2 for values in zip(*halves.values(), strict=True)]
        assert means == pytest.approx(group.values("test_longer", figure))
    assert [group.sentences("test_longer", bucket) for bucket in (None, (13, 13), (13, 16))] == [24, 3, 12]


def test_data_that_hold_the_same_sentences_have_the_same_content(tmp_path: Path) -> None:
    data = config()["data"]
    same = [data, data | {"bos": False}, data | {"batch_size": 8}]
    other = [data | {"seed": 1}, data | {"max_length": 9}, data | {"split_by_length": 5}]
    for number, options in enumerate([*same, *other]):
        write_numbers(tmp_path / str(number), config(data=options), longer=0.5, age=-number)
    contents = [group.content for group in group_runs(find_runs([str(tmp_path)]))]
    assert len(set(contents[:3])) == 1 and len(set(contents)) == 4
