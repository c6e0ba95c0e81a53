"""Runs side by side: what is printed and written is the groups' numbers, tests and faults."""

import csv
import html
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from relformer.errors import UserError
from relformer.evaluation.compare import chosen, compare_command, compare_runs, compared
from relformer.evaluation.statistics import interval_over_seeds
from relformer.evaluation.tables import spread
from tests.evaluation.simulated import config, scored, warned, write_groups, write_numbers, write_run, write_texts


def table(text: str, title: str) -> list[list[str]]:
    """The cells of a printed table, its head first."""
    lines = text[text.index(f"{title}\n") :].splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("|"))
    stop = next(n for n, line in enumerate(lines[start:], start) if not line.startswith("|"))
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[start:stop]]
    return [rows[0], *rows[2:]]


def test_the_table_is_the_mean_spread_and_number_of_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = {"t5": [0.5, 0.25, 0.4, 0.3, 0.6], "alibi": [0.9, 0.7], "none": [0.0]}
    for encoding, exact in values.items():
        for seed, longer in enumerate(exact):
            made, iid = config(seed, encoding), 1.0 if encoding != "none" else 0.5
            write_numbers(tmp_path / f"{encoding}{seed}", made, longer, iid)
    assert len(compare_runs([str(tmp_path)]).groups) == 3
    printed = capsys.readouterr().out
    means = table(printed, "Means over seeds")
    assert [row[0] for row in means[1:]] == ["alibi", "t5", "none"]
    column = means[0].index("test_longer, exact match")
    for row in means[1:]:
        exact = values[row[0]]
        assert row[column] == spread(exact) and row[-1] == str(len(exact))
    assert all(row[1:] == ["1,000", "8", "0.25"] for row in table(printed, "Cost")[1:])
    assert "fewer than 5 can't separate" in warned(printed, "alibi")[0] and not warned(printed, "t5")
    assert any("1 of 1 runs are below 0.98 in distribution" in line for line in warned(printed, "none"))


def test_text_is_compared_by_its_scores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """BLEU and chrF, on their scale, of whole sets; they order the groups, whose exact matches are the other way."""
    bleus = {"t5": [30.0, 32.0, 31.0], "alibi": [33.0, 35.0, 34.5]}
    for encoding, scores in bleus.items():
        for seed, score in enumerate(scores):
            exact, generated = 0.5 if encoding == "t5" else 0.25, {"test_iid": scored(score)}
            write_numbers(tmp_path / f"{encoding}{seed}", config(seed, encoding), exact, generated=generated)
    comparison = compare_runs([str(tmp_path)], baseline="t5", csv=tmp_path / "all.csv")
    assert comparison.labels == ["alibi", "t5"]
    assert comparison.columns[-2:] == [("test_iid", "bleu"), ("test_iid", "chrf")]
    printed = capsys.readouterr().out
    means = table(printed, "Means over seeds")
    assert means[2][means[0].index("test_iid, BLEU")] == "31.00 ± 1.00 [28.52, 33.48]"
    assert means[1][means[0].index("test_iid, chrF")].startswith("68.33 ± 2.08 [")
    (against,) = [row for row in table(printed, "Against t5, over seeds") if row[1] == "test_iid, BLEU"]
    assert against[0] == "alibi" and against[2] == "+3.17" and against[5] == "0.100"
    written = [row for row in csv.DictReader((tmp_path / "all.csv").open()) if row["figure"] == "bleu"]
    assert [float(row["mean"]) for row in written] == pytest.approx([102.5 / 3, 31.0])


def test_text_is_compared_by_length(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """BLEU in the buckets that runs made of it, which no mean can join, in the table, the records and the page."""
    write_texts(tmp_path / "runs", {"t5": 30.0, "alibi": 33.0})
    page, numbers = tmp_path / "all.html", tmp_path / "all.csv"
    compare_runs([str(tmp_path / "runs")], baseline="t5", csv=numbers, html=page)
    found = table(capsys.readouterr().out, "test_iid, BLEU by length")
    assert found[0] == ["runs", "2-5", "6-9"] and found[-1] == ["n", "120", "80"]
    assert found[2][:2] == ["t5", "30.50 [24.15, 36.85]"]
    rows = [row for row in csv.DictReader(numbers.open()) if row["figure"] == "chrf" and row["runs"] == "t5"]
    ends = [(row["min_length"], row["max_length"], row["n_sentences"], float(row["mean"])) for row in rows]
    assert ends[1:] == [("2", "5", "120", pytest.approx(61.0)), ("6", "9", "80", pytest.approx(51.0))]
    assert "<h2>BLEU by length</h2>" in page.read_text()


def test_a_mean_never_stands_alone() -> None:
    values = [0.25, 0.5, 0.9]
    low, high = interval_over_seeds(values) or (0.0, 0.0)
    assert (low, high) == pytest.approx(stats.t.interval(0.95, 2, np.mean(values), stats.sem(values)))
    assert low < 0 and high > 1
    assert spread(values) == "0.550 ± 0.328 [0.000, 1.000]"
    assert spread([0.5, 0.52, 0.54], brief=True) == "0.52 [0.47, 0.57]"
    assert spread([0.5]) == "0.500 (one seed)"
    assert spread([98.0, 99.0, 99.5], figure="bleu") == "98.83 ± 0.76 [96.94, 100.00]"
    assert spread([]) == "-"


@pytest.mark.parametrize(
    ("seeds", "kind", "p"),
    [(3, "unpaired", 2 / 20), (5, "unpaired", 2 / 252), (6, "paired", 2 / 64), (10, "paired", 2 / 1024)],
)
def test_what_differs_much_gets_the_least_p_that_its_seeds_can_give(
    tmp_path: Path, seeds: int, kind: str, p: float
) -> None:
    found = compared([str(write_groups(tmp_path, {"t5": 0.1, "alibi": 0.9}, seeds, each=5))])
    tests = {(each.set, each.figure): each for each in found.differences}
    for figure in ("exact_match", "correct_prefix"):
        longer = tests["test_longer", figure]
        assert longer.test.kind == kind and longer.test.exact
        assert longer.test.p == longer.test.least == longer.p_holm == pytest.approx(p)
    assert tests["test_iid", "exact_match"].test.p == 1


def test_the_p_is_scipys_on_the_stored_figures(tmp_path: Path) -> None:
    home = write_groups(tmp_path, {"t5": 0.5, "alibi": 0.5, "rope": 0.53, "shaw": 0.9}, seeds=8, each=20)
    found = compared([str(home)])
    exact = [each for each in found.differences if (each.set, each.figure) == ("test_longer", "exact_match")]
    assert len(exact) == 3
    for each in exact:
        pairs = np.subtract(
            found.groups[each.group].values("test_longer"), found.groups[found.baseline].values("test_longer")
        ).round(9)
        reference = stats.permutation_test(
            (pairs,), lambda x, axis: x.sum(axis=axis).round(6), permutation_type="samples", n_resamples=np.inf
        )
        assert each.test.p == pytest.approx(reference.pvalue)
        assert each.mean == pytest.approx(pairs.mean())
    by_p = sorted(exact, key=lambda each: each.test.p)
    assert by_p[0].p_holm == pytest.approx(3 * by_p[0].test.p)


def test_the_baseline_is_the_first_run_or_the_one_named(tmp_path: Path) -> None:
    home = str(write_groups(tmp_path, {"t5": 0.3, "alibi": 0.6, "rope": 0.1}, seeds=2, each=3))
    for arguments, expected in (
        ([home], "t5"),
        ([home, "baseline=rope"], "rope"),
        (["--baseline", "rope", home], "rope"),
    ):
        found = compare_command(arguments)
        assert found.labels[found.baseline] == expected
        assert {found.labels[each.group] for each in found.differences} == set(found.labels) - {expected}
    with pytest.raises(UserError, match="no group of runs is called 'ropee'; did you mean 'rope'"):
        compare_runs([home], baseline="ropee")
    for wrong in ("test=both", "colour=red"):
        with pytest.raises(UserError):
            compare_command([home, wrong])


def test_seeds_that_do_not_pair_are_not_paired(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(8):
        write_numbers(tmp_path / f"a{seed}", config(seed), 0.1 + seed / 100, age=50)
        write_numbers(tmp_path / f"b{seed}", config(seed + 8, "alibi"), 0.5 + seed / 100)
    found = compare_runs([str(tmp_path)])
    assert {each.test.kind for each in found.differences} == {"unpaired"}
    assert any("their runs don't pair" in line for line in warned(capsys.readouterr().out, "all"))
    with pytest.raises(UserError, match="test=paired needs seeds that both groups have"):
        compare_runs([str(tmp_path)], test="paired")


def test_both_checkpoints_stand_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(5):
        sets = {"test_iid": {"exact_match": 1.0}}
        last, best = ({"step": step, **sets, "test_longer": {"exact_match": v}} for step, v in ((100, 0.2), (40, 0.6)))
        write_numbers(tmp_path / str(seed), config(seed), 0.0, checkpoints={"last": last, "best_val": best})
    compare_runs([str(tmp_path)])
    head, row = table(capsys.readouterr().out, "Both checkpoints")
    found = dict(zip(head, row, strict=True))
    assert found["test_longer, last"].startswith("0.200") and found["test_longer, best_val"].startswith("0.600")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("written")
    write_groups(home / "runs", {"t5": 0.5, "transformer_xl": 0.6}, seeds=3, each=10)
    write_run(home / "runs" / "odd", config(0, "alibi", model={"name": "50%_&<b>"}), each=10)
    options = [
        f"{kind}={home / 'out'}.{suffix}" for kind, suffix in (("csv", "csv"), ("latex", "tex"), ("html", "html"))
    ]
    compare_command([str(home / "runs"), *options])
    return home / "out"


def test_the_csv_has_every_number(written: Path) -> None:
    found = compared([str(written.parent / "runs")])
    with written.with_suffix(".csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for label, group in zip(found.labels, found.groups, strict=True):
        for name, lengths in (("test_iid", 10), ("test_longer", 8)):
            mine = [r for r in rows if (r["runs"], r["set"], r["figure"]) == (label, name, "exact_match")]
            assert len(mine) == 1 + lengths
            whole = next(row for row in mine if not row["min_length"])
            assert float(whole["mean"]) == pytest.approx(np.mean(group.values(name)))
            assert [float(v) for v in whole["values"].split()] == pytest.approx(group.values(name), abs=1e-5)
            assert (int(whole["n_seeds"]), int(whole["n_sentences"])) == (len(group.runs), 10 * lengths)
            buckets = [float(row["mean"]) for row in mine if row["min_length"]]
            assert np.mean(buckets) == pytest.approx(float(whole["mean"]))
    tested = [row for row in rows if row["p"]]
    assert {row["baseline"] for row in tested} == {found.labels[found.baseline]} and len(tested) == 6
    assert all(float(row["p_least"]) <= float(row["p"]) <= float(row["p_holm"]) for row in tested)


def test_the_html_is_one_file(written: Path) -> None:
    text = written.with_suffix(".html").read_text()
    assert not re.search(r"(src|href)=['\"](?!data:)", text) and "<script" not in text
    assert text.count("data:image/svg+xml;base64,") == 3
    assert "50%_&amp;&lt;b&gt;" in text and "<b>" not in text
    assert text.count("<tr>") == text.count("</tr>") and text.count("<table>") == text.count("</table>") == 6
    assert "fewer than 5" in html.unescape(text)


def test_the_latex_is_a_document_s_tables(written: Path, tmp_path: Path) -> None:
    path = written.with_suffix(".tex")
    text = path.read_text()
    tables = re.findall(r"\\begin\{tabular\}\{(\w+)\}(.*?)\\end\{tabular\}", text, re.DOTALL)
    assert len(tables) == text.count(r"\begin{table}") == text.count(r"\end{table}") == 6
    captions = [line for line in text.splitlines() if line.startswith(r"\caption")]
    for columns, body in tables:
        rows = [line for line in body.splitlines() if line.endswith("\\\\")]
        assert rows and all(len(re.findall(r"(?<!\\)&", row)) == len(columns) - 1 for row in rows)
        for line in (*rows, *captions):
            assert not re.search(r"(?<!\\)[_#%^~]|[<>±]", re.sub(r"\$([<>]|\\pm)\$", "", line)), line
    bare = re.sub(r"^%.*|\\[{}]", "", text, flags=re.MULTILINE)
    assert bare.count("{") == bare.count("}")
    assert r"50\%\_\&$<$b$>$" in text and r"\textcolor{gray}{" in text
    if compiler := shutil.which("pdflatex"):
        head = r"\documentclass{article}\usepackage[T1]{fontenc}\usepackage{booktabs,graphicx,xcolor}\begin{document}"
        (tmp_path / "all.tex").write_text(f"{head}\n\\input{{{path}}}\n\\end{{document}}\n")
        done = subprocess.run([compiler, "-halt-on-error", "all.tex"], cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout.decode(errors="replace")[-2000:]


def test_a_foreign_metrics_file_blocks_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_numbers(tmp_path / "run", config(), longer=0.1)
    for name, text in (("broken", "{"), ("foreign", '{"loss": 1}'), ("list", "[]")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.json").write_text(text)
    assert len(compare_runs([str(tmp_path)]).groups) == 1
    said = capsys.readouterr().err
    assert all(f"{name}/metrics.json is left out" in said for name in ("broken", "foreign", "list"))
    with pytest.raises(UserError, match=r"no metrics\.json of a run"):
        compare_runs([str(tmp_path / "foreign")])


def test_a_part_of_a_label_names_the_baseline_where_no_other_has_it() -> None:
    labels = ["model.width=64, t5", "model.width=64, alibi", "model.width=32, alibi"]
    assert chosen("t5", labels) == 0 and chosen("model.width=32", labels) == 2 and chosen(labels[1], labels) == 1
    with pytest.raises(UserError, match="no group of runs is called 'alibi'"):
        chosen("alibi", labels)


def test_a_misspelt_option_is_no_path(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no option 'basline'; did you mean 'baseline'") as refused:
        compare_command([str(tmp_path), "basline=t5"])
    assert "options: baseline, test, csv, latex, html" in str(refused.value)


def test_files_that_can_not_be_written_are_named_before_the_work(tmp_path: Path) -> None:
    home = write_groups(tmp_path / "runs", {"t5": 0.3}, seeds=1, each=3)
    (tmp_path / "file").write_text("")
    for argument, said in {
        f"csv={tmp_path}": "is a folder; name a file in it",
        f"latex={tmp_path / 'file' / 'a.tex'}": "file is a file and can't hold others",
        "html=": "name a file",
    }.items():
        with pytest.raises(UserError, match=said):
            compare_command([str(home), argument])
    with pytest.raises(UserError, match="csv, latex and html need files of their own"):
        compare_command([str(home), f"csv={tmp_path / 'a'}", f"html={tmp_path / 'runs' / '..' / 'a'}"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "runs"]
