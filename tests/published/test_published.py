"""Published figures beside ours: every row is a command, its runs are those that the command makes, and no other's."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from relformer.errors import UserError
from relformer.evaluation.groups import Group, find_runs, group_runs
from relformer.published.command import published_command
from relformer.published.pictures import pictures_of
from relformer.published.rendering import cells, reach
from relformer.published.rows import Row, defaults, described, group_of, same
from relformer.published.tables import published_tables
from relformer.training.resume import run_parts
from tests.config.composed import names

TABLES = published_tables()


def row(name: str, title: str = "reversal") -> Row:
    table = next(table for table in TABLES if title in table.title)
    return next(row for row in table.rows if row.name == name)


def finished(of: Row, directory: Path, seed: int, score: float, **changes: Any) -> Path:
    """What a run of a row leaves, as far as it is read here."""
    config = of.config()
    parts = copy.deepcopy(run_parts(config)) | {"seed": seed, "max_steps": config.trainer.max_steps}
    for key, value in changes.items():
        group, _, option = key.rpartition("__")
        node = parts[group] if group else parts
        node.pop(option) if value is None else node.update({option: value})
    length = {"min_length": 17, "max_length": 17, "n": 200, "exact_match": score}
    inside = {"n": 200, "exact_match": 0.99, "by_length": [length | {"min_length": 16, "max_length": 16}]}
    figures = {"step": 6250, "test_iid": inside, of.set: {"n": 200, "exact_match": score, "by_length": [length]}}
    content = {"config": parts, "checkpoint": "last", "checkpoints": {"last": figures}, "trained_length": 16}
    directory.mkdir(parents=True)
    (directory / "metrics.json").write_text(json.dumps(content | {"cost": {"cpu_seconds": 90.0 + 60 * seed}}))
    return directory


def test_every_row_names_what_it_compares() -> None:
    for table in TABLES:
        for each in table.rows:
            assert each.experiment in names("experiment"), each
            assert (each.published is None) == (not each.mark) or each.experiment == "multi30k_tiny", each
            assert each.published is None or each.statistic, each
    commands = [each.command for table in TABLES for each in table.rows]
    assert len(set(commands)) == len(commands)


@pytest.mark.parametrize("title", [table.title for table in TABLES])
def test_the_rows_of_a_table_are_runs_that_differ(title: str) -> None:
    rows = next(table for table in TABLES if table.title == title).rows
    first, last = (described(run_parts(each.config())) for each in (rows[0], rows[-1]))
    assert same(first, first) and not same(first, last)


def test_runs_are_those_that_the_command_makes(tmp_path: Path) -> None:
    """Of any seed and place; not those of other steps or another variant; an older one lacks newer options."""
    wanted = row("rel-e")
    finished(wanted, tmp_path / "a", 0, 0.5)
    finished(wanted, tmp_path / "b", 1, 0.7, data__workers=3)
    finished(wanted, tmp_path / "older", 2, 0.6, model__share_layers=None)
    finished(wanted, tmp_path / "shorter", 3, 0.1, max_steps=2)
    finished(wanted, tmp_path / "values", 4, 0.1, encoding__values=True)
    finished(row("rel2-e"), tmp_path / "cross", 5, 0.1)
    found = group_of(wanted, group_runs(find_runs([str(tmp_path)])))
    assert sorted(found.runs) == [0, 1, 2]
    written = cells(wanted, found)
    assert written[:8] == ["rel-e", "0.422 [R]", "0.600", "sd 0.100, 0.500 - 0.700", "3", "0.990", "17", "6,250"]
    assert written[8:] == ["2.5 min", f"`{wanted.command}`"]
    assert cells(row("abs"), group_of(row("abs"), []))[2] == "not run"


def reached(by_length: dict[str, list[tuple[int, int, float]]]) -> str:
    """Of (length, sentences, exact match) in each set."""
    sets = {
        name: {"by_length": [{"min_length": m, "max_length": m, "n": n, "exact_match": x} for m, n, x in lengths]}
        for name, lengths in by_length.items()
    }
    run = {"checkpoint": "last", "checkpoints": {"last": sets}}
    return reach(Group({}, {0: run}))


def test_how_far_a_row_reaches() -> None:
    good = [(length, 100, 0.9) for length in range(2, 17)]
    assert reached({"test_iid": good, "test_longer": [(17, 50, 0.6), (18, 50, 0.4), (19, 50, 0.9)]}) == "17"
    few = {"test_iid": [(1, 1, 0.0), *good], "test_longer": [(17, 50, 0.4)]}
    assert reached(few) == "16"  # the one of length 1 counts with those of 2
    assert reached({"test_iid": [(2, 100, 0.1)], "test_longer": [(17, 50, 0.9)]}) == ""
    padded = {"test_iid": [(12, 100, 1.0)], "test_longer": [(12, 100, 0.0)]}
    assert reached(padded) == ""


def test_an_older_run_is_not_taken_for_one_with_a_newer_option() -> None:
    wanted = described(run_parts(row("26, relative, shared layers", "small size").config()))
    older = {key: value for key, value in wanted.items() if key != "model.share_layers"}
    assert wanted["model.share_layers"] is True and defaults(wanted)["model.share_layers"] is False
    assert not same(wanted, older)
    assert same({**wanted, "model.share_layers": False}, older)


def test_published_curves_are_of_the_rows_and_drawn_beside_ours(tmp_path: Path) -> None:
    """The figure of a row is the mean of its curve."""
    tables = [table for table in TABLES if "Kazemnejad" in table.title]
    assert len(tables) == 4
    for each in (row for table in tables for row in table.rows):
        assert each.curve is not None and each.curve.lengths == list(range(21, 41))
        assert each.published == pytest.approx(sum(each.curve.value) / 20, abs=6e-4), each
    first = tables[0].rows[0]
    groups = group_runs(find_runs([str(finished(first, tmp_path / "a", 0, 0.5))]))
    ours = [group_of(first, groups), *[Group({}, {})] * 4]
    (axis,) = dict(pictures_of(tables[0], ours))["lengths"].axes
    (dotted,) = [line for line in axis.lines if line.get_label() == "sinusoidal, published (range)"]
    (solid,) = [line for line in axis.lines if line.get_label() == "sinusoidal"]
    assert first.curve is not None and list(dotted.get_ydata()) == first.curve.value
    assert dotted.get_color() == solid.get_color()


def test_far_below_a_verified_figure_is_said(tmp_path: Path) -> None:
    wanted = row("t5", "Kazemnejad et al. 2023, copy")
    assert wanted.mark == "V" and wanted.published == 0.42
    for seed, score in enumerate((0.10, 0.12)):
        finished(wanted, tmp_path / str(seed), seed, score)
    ours = cells(wanted, group_of(wanted, group_runs(find_runs([str(tmp_path)]))))[2]
    assert ours == f"0.110 ({(0.42 - 0.11) / 0.02 * 2**0.5:.1f} sd below)"


def test_text_counts_where_it_was_scored_as_published(tmp_path: Path) -> None:
    """Tokenised text as it stands, and cased text by 13a, which is what a run did that is older than the option."""
    of = {name: row(name, "Multi30k") for name in ("lowercased, tokenised", "raw, cased, by 13a")}
    for (name, each), tokenizer in zip(of.items(), ("none", "13a"), strict=True):
        finished(each, tmp_path / name / "mine", 0, 0.0)
        finished(each, tmp_path / name / "older", 1, 0.0, eval__bleu_tokenize=None)
        found = group_of(each, group_runs(find_runs([str(tmp_path / name)])))
        assert list(found.runs) == ([0] if tokenizer == "none" else [0, 1])
    bleu = {"test_iid": {"bleu": {"score": 39.5}}, "test_2017": {"bleu": {"score": 31.0}}}
    run = {"checkpoint": "last", "checkpoints": {"last": {}}, "generated": bleu}
    wanted = of["lowercased, tokenised"]
    assert Group({}, {0: run}).values(wanted.set, wanted.figure) == [39.5]


def test_tables_stand_between_the_marks_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relformer.published.command.published_tables", lambda: TABLES[:1])
    finished(row("abs"), tmp_path / "runs" / "a", 0, 0.25)
    out = tmp_path / "README.md"
    out.write_text("before\n<!-- published -->\nold\n<!-- /published -->\nbehind\n")
    figures = tmp_path / "pictures"
    for _ in range(2):
        published_command([str(tmp_path / "runs"), f"out={out}", f"figures={figures}"])
    text = out.read_text()
    assert text.startswith("before\n<!-- published -->\n### ") and text.endswith("<!-- /published -->\nbehind\n")
    assert "- Relative positions carry reversal" in text and "**open**, not run: rel-e" in text
    assert "old" not in text and "| abs | 0.000 [R] | 0.250 |" in text and text.count("| not run |") == 6
    (picture,) = figures.iterdir()
    assert f"](pictures/{picture.name})" in text


def test_a_claim_has_a_picture_of_its_own(tmp_path: Path) -> None:
    table = next(table for table in TABLES if "learns of distance" in table.title)
    groups = []
    for number, each in enumerate(table.rows[:3]):
        for seed in (0, 1):
            finished(each, tmp_path / f"{number}-{seed}", seed, 0.5 - 0.1 * number + 0.02 * seed)
        groups.append(group_of(each, group_runs(find_runs([str(tmp_path)]))))
    drawn = dict(pictures_of(table, [*groups, *[Group({}, {})] * 2]))
    assert list(drawn) == ["lengths", "claim"]
    (axis,) = drawn["claim"].axes
    assert axis.get_xlabel().startswith("log2(1 + learned numbers")
    means = [line.get_ydata()[0] for line in axis.lines if line.get_label() in {row.name for row in table.rows}]
    assert means == pytest.approx([0.51, 0.41, 0.31])
    other = next(table for table in TABLES if "ALiBi is worse" in table.title)
    assert list(pictures_of(other, [Group({}, {})] * 3)) == []


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a file; make one that holds"):
        published_command([f"out={tmp_path / 'none.md'}"])
    (tmp_path / "bare.md").write_text("text")
    with pytest.raises(UserError, match="lacks the lines <!-- published -->"):
        published_command([f"out={tmp_path / 'bare.md'}"])
    with pytest.raises(UserError, match=r"figures=.* needs out=FILE"):
        published_command([f"figures={tmp_path}"])
