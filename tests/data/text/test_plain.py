"""Plain text by lines and by paragraphs."""

from pathlib import Path

import pytest

from relformer.data.text import lines, plain
from relformer.data.text.notes import Notes
from relformer.data.text.plain import Text, Unit, open_plain
from relformer.data.text.reading import Reading
from relformer.errors import UserError
from tests.data.text.corpora import write

CONTENT = "\none\ntwo\n \n\nthree\nfo\0ur\nfive\n\nsix"


def read(folder: Path, content: str, unit: Unit, notes: Notes) -> list[tuple[int, str]]:
    write(folder, a_txt=content)
    (corpus,) = open_plain("a.txt", Reading(folder=folder, on_bad="skip"), "data.train.file", unit)
    texts = list(corpus.read(notes))
    assert all(isinstance(text, Text) and text.where == f"a.txt:{text.line}" for text in texts)
    return [(text.line, text.text) for text in texts]


@pytest.mark.parametrize("block", [1, 5, 1 << 20])
def test_lines_and_paragraphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(lines, "BLOCK", block)
    notes = Notes()
    assert read(tmp_path, CONTENT, "line", notes) == [(2, "one"), (3, "two"), (6, "three"), (8, "five"), (10, "six")]
    assert notes.lines() == [
        "4 lines without text left out (first: a.txt:1)",
        "1 text left out for a bad line: a NUL character (first: a.txt:7)",
    ]
    assert (notes.total, notes.dropped) == (6, 1)
    notes = Notes()
    assert read(tmp_path, CONTENT, "paragraph", notes) == [(2, "one two"), (10, "six")]
    assert notes.lines() == ["1 text left out for a bad line: a NUL character (first: a.txt:7)"]
    assert (notes.total, notes.dropped) == (3, 1)


def test_a_paragraph_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "LONGEST_LINE", 20)
    notes = Notes()
    assert read(tmp_path, "word\n" * 10 + "\nlast\n", "paragraph", notes) == [(12, "last")]
    assert notes.lines() == ["1 text left out for a bad line: a paragraph without end (first: a.txt:6)"]


@pytest.mark.parametrize("unit", ["line", "paragraph"])
def test_a_bad_line_stops_and_an_empty_corpus_too(tmp_path: Path, unit: Unit) -> None:
    write(tmp_path, a_txt=CONTENT, b_txt="\n\n")
    bad, blank = open_plain(["a.txt", "b.txt"], Reading(folder=tmp_path), "data.train.file", unit)
    with pytest.raises(UserError, match=r"a\.txt:7: holds a NUL character at column 3; .*data\.on_bad=skip$"):
        list(bad.read(Notes()))
    with pytest.raises(UserError, match=r"b\.txt gives no text: "):
        list(blank.read(Notes()))
    assert bad.name == "a.txt" and not bad.once and bad.digest() != blank.digest()
