"""Pages from run directories: finished, going on, cut short, many; nothing in them that asks for a network."""

import os
import re
from contextlib import nullcontext
from html.parser import HTMLParser
from pathlib import Path

import pytest

from relformer.errors import UserError
from relformer.report.curves import reach, seed_groups
from relformer.report.pages import report
from relformer.report.reading import differences, find_runs, labels, read_run
from tests.cli.runs import relformer
from tests.reliability.locks import locked
from tests.report.runs import make_run


class Parsed(HTMLParser):
    """What stands in a page: tags with their attributes, and its text."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_page_holds_all_and_fetches_nothing(tmp_path: Path) -> None:
    page = report(make_run(tmp_path / "run"))
    assert page == tmp_path / "run" / "report.html"
    parsed = Parsed(page)
    for tag, attributes in parsed.tags:
        for name in ("src", "href", "srcset", "action", "data"):
            value = attributes.get(name)
            assert value is None or value.startswith("data:image/png;base64,"), (tag, name, value)
    assert not re.search(r"@import|url\(|https?://|fetch\(|XMLHttpRequest", page.read_text())
    (policy,) = [a["content"] for tag, a in parsed.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None and policy.startswith("default-src 'none'; img-src data:;")
    pictures = [a for tag, a in parsed.tags if tag == "img"]
    assert len(pictures) == 2 * 2 * 2  # steps, layers, heads
    assert {a["alt"] for a in pictures} == {f"layer {m}, head {n}, R² 0.50" for m in (1, 2) for n in (1, 2)}
    for name in ("optimizer step", "target length (tokens without BOS and EOS)", "exact match", "bias (nats)"):
        assert name in parsed.text
    assert "encoding.name" in parsed.text and "finished" in parsed.text
    assert re.search(r"test_iid\s*BLEU\s*31\.250", parsed.text)


@pytest.mark.parametrize("lives", [False, True])
def test_a_run_that_goes_on_or_was_killed(tmp_path: Path, lives: bool) -> None:
    """Its lock tells, not the time of its last line: an evaluation may take long, and a kill is known at once."""
    run = make_run(tmp_path / "run", finished=False)
    log = run / "csv" / "metrics.csv"
    log.write_text(log.read_text() + "110,0.0")  # cut short by a kill
    if lives:
        os.utime(log, (1e9, 1e9))
    with locked(run) if lives else nullcontext():
        text = Parsed(report(run)).text
    assert f"{'running' if lives else 'interrupted'} at step 100 of 100" in text
    assert "val_iid" in text and "exact match by length" in text


def test_a_run_with_nothing_but_a_log(tmp_path: Path) -> None:
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "metrics.csv").write_text("step,train/loss\n9,2.5\n")
    assert "step 9" in Parsed(report(tmp_path)).text


def test_an_index_says_what_sets_runs_apart(tmp_path: Path) -> None:
    make_run(tmp_path / "0_a", "rope", exact=1.0)
    make_run(tmp_path / "1_b", "t5", exact=0.9)
    make_run(tmp_path / "2_c", "t5", exact=0.8, seed=1, finished=False)
    page = report(tmp_path)
    assert page == tmp_path / "report.html"
    parsed = Parsed(page)
    links = [a["href"] for tag, a in parsed.tags if tag == "a"]
    assert links == ["0_a/report.html", "1_b/report.html", "2_c/report.html"]
    assert all((tmp_path / str(link)).exists() for link in links)
    for text in ("encoding.name", "test_longer, exact match", "not learned", "interrupted at step 100 of 100"):
        assert text in parsed.text
    assert sum(tag == "template" for tag, _ in parsed.tags) == 3


def test_differences_and_names(tmp_path: Path) -> None:
    make_run(tmp_path / "a", "rope")
    make_run(tmp_path / "b", "t5")
    runs = find_runs(tmp_path)
    assert differences(runs) == ["encoding.name"]  # num_buckets comes with t5
    assert labels(runs) == ["rope", "t5"]
    make_run(tmp_path / "c", "t5", seed=4)
    runs = find_runs(tmp_path)
    assert differences(runs) == ["encoding.name", "seed"]
    assert labels(runs) == ["rope seed=0", "t5 seed=0", "t5 seed=4"]
    assert labels(runs[:1] * 2) == [f"{runs[0].name} (1)", f"{runs[0].name} (2)"]
    assert read_run(tmp_path / "a").settings["trainer.max_steps"] == 100


def test_seeds_are_one_line_with_their_range(tmp_path: Path) -> None:
    for seed, exact in ((0, 1.0), (1, 0.8)):
        make_run(tmp_path / f"t5-{seed}", "t5", seed=seed, exact=exact)
    make_run(tmp_path / "rope", "rope", exact=0.6)
    (single, _), (several, group) = sorted(seed_groups(find_runs(tmp_path)))
    assert (single, several) == ("rope", "t5 (2 seeds)")
    line = reach(several, group, "exact_match")
    assert list(line.x) == [1, 2, 3, 5, 6]
    assert list(line.y) == pytest.approx([0.9] * 3 + [0.45] * 2)
    assert list(line.low or []) == pytest.approx([0.8] * 3 + [0.4] * 2)


@pytest.mark.parametrize("what", ["nothing", "file"])
def test_no_run_there(tmp_path: Path, what: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"no run in|is not a folder"):
        report(tmp_path if what == "nothing" else tmp_path / "file")


def test_the_command(tmp_path: Path) -> None:
    make_run(tmp_path / "run")
    ended = relformer("report", "run", cwd=tmp_path).succeeded()
    assert ended.out.split() == ["page", "run/report.html"]
    assert relformer("report", cwd=tmp_path).code == 2
