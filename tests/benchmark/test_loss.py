"""`relformer benchmark loss`: both ways are one loss, and what is printed and written."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from relformer.benchmark.loss import LossBenchmark, benchmark_loss, both_ways, torch_loss
from relformer.benchmark.losses import head_loss
from relformer.errors import UserError

TINY = ["tokens=32", "vocabulary=11", "width=4", "repeats=1"]


def test_both_ways_give_the_same_gradients() -> None:
    options = LossBenchmark(tokens=64, vocabulary=11, width=4, padding=0.2)
    found: Any = [both_ways(way, options, torch.device("cpu"))() for way in (torch_loss, head_loss)]
    torch.testing.assert_close(*found)


def test_what_it_prints_and_writes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, written: Callable[[Path], Any]
) -> None:
    rows = benchmark_loss([*TINY, f"out={tmp_path / 'l.csv'}", f"plot={tmp_path / 'l.png'}"])
    assert [row.system for row in rows] == ["torch cross_entropy", "relformer"]
    assert "32 positions (5% padding), width 4, 11 words" in capsys.readouterr().out
    assert list(written(tmp_path / "l.csv")[0]) == [
        *("system", "milliseconds", "over_torch", "over_torch_low", "over_torch_high"),
        *("megabytes", "megabytes_over_torch"),
    ]
    assert (tmp_path / "l.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("tokens=40", "tokens=40 must be a multiple of 16"),
        ("label_smoothing=1", r"label_smoothing=1.0 must lie in \[0"),
    ],
)
def test_nonsense_is_refused(argument: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        benchmark_loss([argument])
