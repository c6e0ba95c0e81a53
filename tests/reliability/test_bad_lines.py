"""A bad line of data is named with its file and number, and stops or is left out and counted."""

import sys
from pathlib import Path

import pytest

from relformer.cli import main
from relformer.data.text.lines import LONGEST_LINE

GOOD = [f"a{number}\tb{number}" for number in range(40)]
BAD = {
    "bytes that are not text": (b"caf\xe9\tx", "byte 0xe9 at offset"),
    "a column too many": (b"a\tb\tc", "has 3 fields, and 2 are expected"),
    "one column": (b"alone", "has 1 field, and 2 are expected"),
    "NUL": (b"a\0\tb", "NUL"),
    "no line ends": (b"x" * (2 * LONGEST_LINE), "10 MiB are the limit"),
}


def look(folder: Path, monkeypatch: pytest.MonkeyPatch, bad: bytes, *overrides: str) -> int:
    """The exit code of `relformer data` on pairs of which line 18 is bad."""
    lines = [line.encode() for line in GOOD]
    (folder / "pairs.tsv").write_bytes(b"\n".join([*lines[:17], bad, *lines[17:]]) + b"\n")
    monkeypatch.chdir(folder)
    data = ("data=text_files", "data.train.file=pairs.tsv", "data.held_out=1", "data.tokenizer.kind=char")
    monkeypatch.setattr(sys, "argv", ["relformer", "data", *data, *overrides])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_line_stops_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    bad, said = BAD[kind]
    assert look(tmp_path, monkeypatch, bad) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and "pairs.tsv:18" in error and said in error and len(error) < 1000


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_line_is_left_out_and_counted_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    assert look(tmp_path, monkeypatch, BAD[kind][0], "data.on_bad=skip") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "note train: 1 pair left out for a bad line: " in out and "(first: pairs.tsv:18)" in out


def test_more_bad_lines_than_allowed_stop_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert look(tmp_path, monkeypatch, BAD["one column"][0], "data.on_bad=skip", "data.most_dropped=0.01") == 2
    assert "1 of 41 pairs (2%) would be left out, more than data.most_dropped=0.01" in capsys.readouterr().err
