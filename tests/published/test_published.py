"""Published figures beside ours: every row is a command, its runs are those that the command makes, and no other's."""

from pathlib import Path

import pytest

from relformer.errors import UserError
from relformer.evaluation.groups import Group, find_runs, group_runs
from relformer.published.command import published_command
from relformer.published.findings import finding_lines
from relformer.published.matching import group_of
from relformer.published.pictures import pictures_of
from relformer.published.reach import reached
from relformer.published.rendering import cells
from tests.config.composed import names
from tests.published.rows import TABLES, finished, row


def test_every_row_names_what_it_compares() -> None:
    for table in TABLES:
        for each in table.rows:
            assert each.experiment in names("experiment"), each
            assert (each.published is None) == (not each.mark) or each.experiment == "multi30k_tiny", each
            assert each.published is None or each.statistic, each
    commands = [each.command for table in TABLES for each in table.rows]
    assert len(set(commands)) == len(commands)


def reach(by_length: dict[str, list[tuple[int, int, float]]]) -> int | None:
    """Of (length, sentences, exact match) in each set."""
    sets = {
        name: {"by_length": [{"min_length": m, "max_length": m, "n": n, "exact_match": x} for m, n, x in lengths]}
        for name, lengths in by_length.items()
    }
    return reached(Group({}, {0: {"checkpoint": "last", "checkpoints": {"last": sets}}}))


def test_how_far_a_row_reaches() -> None:
    good = [(length, 100, 0.9) for length in range(2, 17)]
    assert reach({"test_iid": good, "test_longer": [(17, 50, 0.6), (18, 50, 0.4), (19, 50, 0.9)]}) == 17
    few = {"test_iid": [(1, 1, 0.0), *good], "test_longer": [(17, 50, 0.4)]}
    assert reach(few) == 16  # the one of length 1 counts with those of 2
    assert reach({"test_iid": [(2, 100, 0.1)], "test_longer": [(17, 50, 0.9)]}) == 0
    assert reach({"test_iid": [(12, 100, 1.0)], "test_longer": [(12, 100, 0.0)]}) is None  # padded
    assert reach({}) is None


def test_findings_of_reach_and_rows_that_have_not_learned(tmp_path: Path) -> None:
    table = next(table for table in TABLES if "reversal" in table.title)
    for number, (name, score) in enumerate({"abs": 0.1, "rel-e": 0.6, "rel-b": 0.7, "rel-eb": 0.3}.items()):
        finished(row(name), tmp_path / str(number), 0, score, iid=0.97 if name == "rel-b" else 0.99)
    groups = [group_of(each, group_runs(find_runs([str(tmp_path)]))) for each in table.rows]
    said = list(finding_lines(table.findings, table.rows, groups))[1]
    assert said.startswith(
        "- They reach further than absolute ones: **so far no**: rel-eb 16 (n 1) is not above abs 16"
    )
    assert said.endswith("Not learned: rel-b.")
    names = [each.name for each in table.rows]
    assert cells(table.rows[names.index("rel-b")], groups[names.index("rel-b")])[6:8] == ["0.9700, not learned", "17"]


def test_a_table_of_text_has_a_curve_of_its_score(tmp_path: Path) -> None:
    """And one whose targets have one length has none."""
    table = next(table for table in TABLES if "Multi30k" in table.title)
    group = group_of(table.rows[0], group_runs(find_runs([str(finished(table.rows[0], tmp_path / "a", 0, 0.3))])))
    (axis,) = dict(pictures_of(table, [group, *[Group({}, {})] * (len(table.rows) - 1)]))["lengths"].axes
    assert axis.get_ylabel().startswith("BLEU")
    table = next(table for table in TABLES if "addition" in table.title)
    run = finished(table.rows[0], tmp_path / "b", 0, 0.3, padded=True)
    group = group_of(table.rows[0], group_runs(find_runs([str(run)])))
    assert group.runs and not list(pictures_of(table, [group, *[Group({}, {})] * (len(table.rows) - 1)]))


def test_published_curves_are_of_the_rows_and_drawn_beside_ours(tmp_path: Path) -> None:
    """The figure of a row is the mean of its curve."""
    tables = [table for table in TABLES if "Kazemnejad" in table.title]
    assert len(tables) == 4
    for each in (one for table in tables for one in table.rows):
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
    with pytest.raises(UserError, match="needs the lines <!-- published -->"):
        published_command([f"out={tmp_path / 'bare.md'}"])
    with pytest.raises(UserError, match=r"figures=.* needs out=FILE"):
        published_command([f"figures={tmp_path}"])


MARKED = "before\r\n<!-- published -->\r\nold\r\n<!-- /published -->\r\nbehind\r\n"


def test_a_file_is_left_as_it_is_but_between_its_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ends of lines, and a link to it; marks that are spoken of in a sentence are none."""
    monkeypatch.setattr("relformer.published.command.published_tables", lambda: [])
    out, link = tmp_path / "README.md", tmp_path / "link.md"
    out.write_bytes(b"put <!-- published --> there\r\n" + MARKED.encode())
    link.symlink_to(out)
    published_command([f"out={link}"])
    text = out.read_bytes()
    assert link.is_symlink() and text.startswith(b"put <!-- published --> there\r\nbefore\r\n<!-- published -->\n")
    assert text.endswith(b"<!-- /published -->\r\nbehind\r\n") and b"old" not in text
    for wrong in (MARKED * 2, MARKED.replace("old", "<!-- published -->"), MARKED.replace("/published", "published")):
        out.write_text(wrong)
        with pytest.raises(UserError, match="once each, in this order"):
            published_command([f"out={out}"])
    out.write_bytes(MARKED.replace("old", "ö").encode("latin-1"))
    with pytest.raises(UserError, match="is not UTF-8"):
        published_command([f"out={out}"])


def test_places_that_can_not_be_written_are_named_first(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(MARKED)
    (tmp_path / "file").write_text("")
    for figures in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UserError, match="file is a file and can't hold others; name a folder"):
            published_command([f"out={tmp_path / 'README.md'}", f"figures={figures}"])


def test_files_that_are_no_runs_leave_the_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "README.md").write_text(MARKED)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.json").write_text("[]")
    with pytest.raises(UserError, match=r"no metrics\.json of a run among"):
        published_command([str(tmp_path / "run"), f"out={tmp_path / 'README.md'}"])
    assert "old" in (tmp_path / "README.md").read_text()
