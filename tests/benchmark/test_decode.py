"""`relformer benchmark decode`: what it runs, prints and writes; and that all competitors do the same work."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from relformer import cli
from relformer.benchmark import peers, searches
from relformer.benchmark.decode import DecodeBenchmark, benchmark_decode
from relformer.benchmark.options import parsed
from relformer.errors import UserError

SMALL = ["batch=2", "source=3", "new_tokens=2", "beams=2", "repeats=1"]


@pytest.mark.usefixtures("alone")
def test_it_prints_a_table_and_names_who_is_absent(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, written: Callable[[Path], Any]
) -> None:
    rows = benchmark_decode([*SMALL, f"out={tmp_path / 'speed.csv'}", f"plot={tmp_path / 'speed.svg'}"])
    printed = capsys.readouterr().out
    assert "2 sources of 3 tokens, 2 new tokens each" in printed
    assert "left out: HF T5, x-transformers; pip install 'relformer[peers]'" in printed
    assert [(row.system, row.search) for row in rows] == [("relformer", "greedy"), ("relformer", "beam 2")]
    found = written(tmp_path / "speed.csv")
    assert [float(row["tokens_per_second"]) for row in found] == [row.tokens_per_second for row in rows]
    assert "tokens per second" in (tmp_path / "speed.svg").read_text()
    assert all(row.tokens_per_second == pytest.approx(4 / row.milliseconds * 1000) for row in rows)
    assert all(row.ours_is.median == 1 for row in rows)


def test_options() -> None:
    assert parsed(DecodeBenchmark, ["batch=2", "out=a.csv"]) == DecodeBenchmark(batch=2, out="a.csv")


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
    for arguments, message in (
        (["decod"], "no benchmark 'decod'; did you mean 'decode'"),
        ([], "needs to know of what"),
    ):
        monkeypatch.setattr("sys.argv", ["relformer", "benchmark", *arguments])
        with pytest.raises(SystemExit):
            cli.main()
        assert message in capsys.readouterr().err


@torch.no_grad()
def test_all_write_as_many_tokens_with_as_many_parameters() -> None:
    """But for x-transformers' output layer, which it can't tie."""
    pytest.importorskip("transformers")
    pytest.importorskip("x_transformers")
    source = torch.randint(3, peers.VOCABULARY, (2, 6), generator=torch.Generator().manual_seed(0))
    ours, hf, xt = searches.competitors(source, 5)
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
