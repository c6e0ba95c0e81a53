"""Which runs are a row's: those that its command makes, to the end, and no other's."""

import copy
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relformer.evaluation.groups import Group, find_runs, group_runs
from relformer.published.matching import composed, differences, group_of, say_unused
from relformer.published.rendering import cells
from tests.published.rows import TABLES, finished, row


def grouped(*paths: Path) -> list[Group]:
    return group_runs(find_runs([str(path) for path in paths]))


@pytest.mark.parametrize("title", [table.title for table in TABLES])
def test_the_rows_of_a_table_are_runs_that_differ(title: str) -> None:
    rows = next(table for table in TABLES if table.title == title).rows
    first = composed(rows[0].experiment, rows[0].overrides)
    assert not differences(rows[0], first) and differences(rows[-1], first)


def test_runs_are_those_that_the_command_makes(tmp_path: Path) -> None:
    """Of any seed and place; not those of other steps or another variant; an older one lacks newer options."""
    wanted = row("rel-e")
    finished(wanted, tmp_path / "a", 0, 0.5)
    finished(wanted, tmp_path / "b", 1, 0.7, data__workers=3)
    finished(wanted, tmp_path / "older", 2, 0.6, model__share_layers=None)
    finished(wanted, tmp_path / "shorter", 3, 0.1, max_steps=2)
    finished(wanted, tmp_path / "values", 4, 0.1, encoding__values=True)
    finished(row("rel2-e"), tmp_path / "cross", 5, 0.1)
    found = group_of(wanted, grouped(tmp_path))
    assert sorted(found.runs) == [0, 1, 2]
    written = cells(wanted, found)
    assert written[:5] == ["rel-e", "0.422 [R]", "0.600", "sd 0.100, 0.500 - 0.700", "3"]
    assert written[5:9] == ["0.800", "0.990", "17", "6,250"]
    assert written[9:] == ["2.5 min", f"`{wanted.command}`"]
    assert cells(row("abs"), group_of(row("abs"), []))[2] == "not run"


def test_an_older_run_is_not_taken_for_one_with_a_newer_option() -> None:
    shared, plain = (row(f"26, relative{also}", "small size") for also in (", shared layers", ""))
    older = copy.deepcopy(dict(composed(shared.experiment, shared.overrides)))
    assert older["model"].pop("share_layers") is True
    assert differences(shared, older) == ["model.share_layers"] and not differences(plain, older)


def test_text_counts_where_it_was_scored_as_published(tmp_path: Path) -> None:
    """Tokenised text as it stands, and cased text by 13a, which is what a run did that is older than the option."""
    of = {name: row(name, "Multi30k") for name in ("lowercased, tokenised", "raw, cased, by 13a")}
    for (name, each), tokenizer in zip(of.items(), ("none", "13a"), strict=True):
        finished(each, tmp_path / name / "mine", 0, 0.395)
        finished(each, tmp_path / name / "older", 1, 0.3, eval__bleu_tokenize=None)
        found = group_of(each, grouped(tmp_path / name))
        assert list(found.runs) == ([0] if tokenizer == "none" else [0, 1])
        assert found.by_seed(each.set, each.figure)[0] == 39.5


def rewrite(directory: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    content = json.loads((directory / "metrics.json").read_text())
    change(content)
    (directory / "metrics.json").write_text(json.dumps(content))
    return directory


def changed(option: str) -> list[dict[str, Any]]:
    return [{"step": 349, "options": {option: [1.0, 2.0]}}]


FAULTS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "tuned": (lambda run: run.update(tuned_on_test=True), "its options were chosen on a test set"),
    "stopped": (lambda run: run["checkpoints"]["last"].update(step=20), "it stopped at step 20 of 6,250"),
    "changed": (lambda run: run["config"].update(changes=changed("optimizer.lr")), r"until step 349 \(optimizer.lr\)"),
    "figure": (lambda run: run["checkpoints"]["last"].pop("test_longer"), "it has no exact_match on test_longer"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_runs_that_the_command_would_not_make_are_left_out_and_named(
    fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted, (change, said) = row("rel-e"), FAULTS[fault]
    finished(wanted, tmp_path / "good", 0, 0.5)
    rewrite(finished(wanted, tmp_path / "bad", 1, 0.9), change)
    assert list(group_of(wanted, grouped(tmp_path)).runs) == [0]
    assert re.search(
        rf"bad/metrics.json is left out of the row .rel-e. of ontanon2022_reverse: .*{said}", capsys.readouterr().err
    )


def test_what_changes_no_figure_may_be_otherwise(tmp_path: Path) -> None:
    """How text is searched for changes no exact match, and every score of text."""
    exact, text = row("rel-e"), row("lowercased, tokenised", "Multi30k")
    for number, wanted in enumerate((exact, text)):
        home = tmp_path / str(number)
        scored = finished(wanted, home / "scored", 0, 0.5)
        rewrite(scored, lambda run: run["config"].update(changes=changed("eval.every")))
        finished(wanted, home / "greedy", 1, 0.1, decoding__length_penalty=7.0)
        assert list(group_of(wanted, grouped(home)).runs) == ([0, 1] if wanted is exact else [0])


def test_runs_of_another_start_or_with_averaged_weights_are_of_no_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = row("rel-e")
    finished(wanted, tmp_path / "good", 0, 0.5)
    for name, also in {"started": {"init_from": {"step": 99}}, "averaged": {"ema": {"decay": 0.9}}}.items():
        rewrite(finished(wanted, tmp_path / name, 1, 0.9), lambda run, also=also: run["config"].update(also))  # type: ignore[misc]
    groups = grouped(tmp_path)
    assert list(group_of(wanted, groups).runs) == [0]
    say_unused(TABLES[0].rows, groups)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2 and all("of no row; nearest is 'rel-e' of ontanon2022_reverse, but " in line for line in said)
    assert any("init_from.step is 99, not there" in line for line in said)


def test_of_two_runs_with_one_seed_the_newer_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = row("rel-e")
    for name, score, workers, age in (("older", 0.2, 2, 100), ("a", 0.5, 0, 50), ("newer", 0.8, 2, 0)):
        path = finished(wanted, tmp_path / name, int(name == "a"), score, data__workers=workers)
        os.utime(path / "metrics.json", (1e9 - age, 1e9 - age))
    path = finished(wanted, tmp_path / "between", 0, 0.4)
    os.utime(path / "metrics.json", (1e9 - 20, 1e9 - 20))
    found = group_of(wanted, grouped(tmp_path))
    assert found.by_seed("test_longer") == {0: 0.8, 1: 0.5}
    said = capsys.readouterr().err
    assert f"the row 'rel-e' of ontanon2022_reverse has two runs of seed 0; {tmp_path / 'newer'}" in said
