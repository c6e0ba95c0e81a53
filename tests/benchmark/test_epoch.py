"""`relformer benchmark epoch`: batches of like length against random ones of as many examples."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relformer.benchmark import epoch, peers
from relformer.benchmark.epoch import benchmark_epoch
from relformer.errors import UserError


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """60 pairs of 1 to 20 words, and models of a toy's size."""
    for name, size in {"WIDTH": 8, "HEADS": 2, "FEEDFORWARD": 8, "LAYERS": 1}.items():
        monkeypatch.setattr(peers, name, size)
    for name, count in {"train": 60, "val": 3, "test": 3}.items():
        lines = [f"{name} {n} " + "word " * (n * 7 % 20) for n in range(count)]
        (tmp_path / f"{name}.en").write_text("\n".join(lines) + "\n")
        (tmp_path / f"{name}.de").write_text("\n".join(f"das {line}" for line in lines) + "\n")
    sides = [
        f"data.{n}.{side}={n}.{end}"
        for n in ("train", "val", "test")
        for side, end in (("source", "en"), ("target", "de"))
    ]
    return ["data=text_files", f"data.path={tmp_path}", *sides, "data.tokenizer.size=300", "data.max_tokens=160"]


def test_what_it_prints_and_writes(
    text: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    written: Callable[[Path], Any],
) -> None:
    def turns(runs: dict[str, Any], rounds: int, device: object) -> dict[str, list[float]]:
        for run in runs.values():
            run()
        return {"like lengths": [1.0, 8.0], "random": [2.0, 20.0]}

    monkeypatch.setattr(epoch, "taking_turns", turns)
    rows = benchmark_epoch([*text, "batches=4", "repeats=2", f"out={tmp_path / 'e.csv'}", f"plot={tmp_path / 'e.svg'}"])
    like, random = rows
    assert (like.batches, random.batches) == ("like lengths", "random")
    assert like.padding < 0.15 < 0.3 < random.padding
    assert random.per_epoch == pytest.approx(like.per_epoch, rel=0.15)  # as many examples a batch
    assert random.epoch_seconds == pytest.approx(11 / 4 * random.per_epoch)
    share = like.per_epoch / random.per_epoch
    assert like.over_random.median == pytest.approx(0.45 * share)  # rounds of 0.5 and 0.4
    assert "60 pairs, at most 160 positions a side" in capsys.readouterr().out
    assert [row["batches"] for row in written(tmp_path / "e.csv")] == ["like lengths", "random"]


def test_data_without_a_budget_are_refused() -> None:
    with pytest.raises(UserError, match=r"give data\.max_tokens=2048"):
        benchmark_epoch(["data=reverse"])


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("bathces=2", "no option 'bathces=2'; did you mean 'batches'"),
        ("encoding=ropes", "no encoding 'ropes'; did you mean 'rope'"),
        ("data=multi3k", "no data 'multi3k'; did you mean 'multi30k'"),
    ],
)
def test_nonsense_is_refused(argument: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        benchmark_epoch([argument])
