"""`relformer benchmark decode`: what it runs, prints and writes; and that all competitors do the same work."""

import csv
from pathlib import Path
from typing import Any

import pytest
import torch

from relformer import cli
from relformer.benchmark import peers
from relformer.benchmark.decode import DecodeBenchmark, benchmark_decode, parsed
from relformer.benchmark.interleaved import ratio, taking_turns
from relformer.errors import UserError

SMALL = ["batch=2", "source=3", "new_tokens=2", "beams=2", "repeats=1"]


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No peer is installed, and the number of threads is left as it was."""
    monkeypatch.setattr(peers, "find_spec", lambda name: None)
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)


def test_competitors_take_turns_after_one_round_that_is_not_counted() -> None:
    order: list[str] = []
    runs = {name: (lambda name=name: order.append(name)) for name in ("a", "b")}
    times = taking_turns(runs, 3, torch.device("cpu"))
    assert "".join(order) == "abababab"
    assert {name: len(each) for name, each in times.items()} == {"a": 3, "b": 3}


def test_the_ratio_is_of_neighbours() -> None:
    assert ratio({"slow": [2.0, 30.0, 8.0], "fast": [1.0, 10.0, 2.0]}, "slow", "fast") == 3.0


@pytest.mark.usefixtures("alone")
def test_it_prints_a_table_and_names_who_is_absent(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = benchmark_decode([*SMALL, f"out={tmp_path / 'speed.csv'}"])
    printed = capsys.readouterr().out
    assert "2 sources of 3 tokens, 2 new tokens each" in printed
    assert "left out: HF T5, x-transformers; pip install 'relformer[peers]'" in printed
    assert [(row.system, row.search) for row in rows] == [("relformer", "greedy"), ("relformer", "beam 2")]
    with open(tmp_path / "speed.csv", newline="", encoding="utf-8") as file:
        written = list(csv.DictReader(file))
    assert [float(row["tokens_per_second"]) for row in written] == [row.tokens_per_second for row in rows]
    assert all(row.tokens_per_second == pytest.approx(4 / row.milliseconds * 1000) for row in rows)
    assert all(row.ours_is == 1 for row in rows)


def test_options() -> None:
    assert parsed(["batch=2", "out=a.csv"]) == DecodeBenchmark(batch=2, out="a.csv")


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("bach=2", "no option 'bach=2'; did you mean 'batch'"),
        ("batch", "no option 'batch'"),
        ("batch=0", "batch=0 must be at least 1"),
        ("beams=1", "beams=1 must be at least 2"),
        ("batch=two", "batch: 'two' is not an integer"),
        ("device=tpu", "device=tpu can't be used here"),
    ],
)
def test_nonsense_is_refused(argument: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        benchmark_decode([argument])


@pytest.mark.usefixtures("alone")
def test_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["relformer", "benchmark", "decode", *SMALL])
    cli.main()
    assert "greedy" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["relformer", "benchmark", "train"])
    with pytest.raises(SystemExit):
        cli.main()
    assert "no command benchmark 'train'" in capsys.readouterr().err


@torch.no_grad()
def test_all_write_as_many_tokens_with_as_many_parameters() -> None:
    """But for x-transformers' output layer, which it can't tie."""
    pytest.importorskip("transformers")
    pytest.importorskip("x_transformers")
    source = torch.randint(3, peers.VOCABULARY, (2, 6), generator=torch.Generator().manual_seed(0))
    ours, hf, xt = peers.competitors(source, 5)
    assert (ours.name, hf.name, xt.name) == ("relformer", "HF T5", "x-transformers")
    assert hf.parameters == pytest.approx(ours.parameters, rel=0.01)
    assert xt.parameters - peers.VOCABULARY * peers.WIDTH == pytest.approx(ours.parameters, rel=0.01)
    found: Any = ours.search(1)()
    assert [len(best.tokens) for (best,) in found] == [5, 5]
    found = ours.search(3)()
    assert [len(best.tokens) for (best,) in found] == [5, 5]
    for beams in (1, 3):
        assert hf.search(beams)().shape == (2, 6)  # type: ignore[attr-defined]
    assert xt.search(1)().shape == (2, 5)  # type: ignore[attr-defined]
    assert not xt.beam
