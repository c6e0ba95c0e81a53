"""Any bytes at all: reading ends in pairs or in the user's error, and never loses the alignment."""

import bz2
import gzip
import json
import lzma
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from relformer.data.text.notes import Notes
from relformer.data.text.pairs import Files, Reading, open_pairs
from relformer.data.text.plain import open_plain
from relformer.errors import UserError

FRAGMENTS = [
    *(b"\n", b"\r\n", b"\t", b" ", b"a", b"source\ttarget", b'{"source": "', b'", "target": "', b'"}', b"\\u0000"),
    *(b"\\ud800", b"{", b"[", b'"positions": [1, 2]', b"\0", b"\xff", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\xc3\xa9"),
    *(b"\x85", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"BZh91AY&SY", b"\xfd7zXZ\0", b"PK\x03\x04", b"\xff\xfe", b"NaN"),
]
CONTENT = st.one_of(st.binary(max_size=200), st.lists(st.sampled_from(FRAGMENTS), max_size=30).map(b"".join))
PACKED = st.one_of(
    CONTENT,
    st.tuples(st.sampled_from([gzip.compress, bz2.compress, lzma.compress]), CONTENT).map(
        lambda each: each[0](each[1])
    ),
)
READING = st.fixed_dictionaries(
    {
        "charset": st.sampled_from(["utf-8", "cp1252", "gb18030", "utf-7", "iso2022_jp"]),
        "on_bad": st.sampled_from(["stop", "skip"]),
    }
)
COLUMNS = st.sampled_from(
    [{}, {"source_column": 1, "target_column": 2}, {"source_column": "a", "target_column": "a.b"}]
)
quick = settings(max_examples=500, deadline=None, derandomize=True, database=None)


@quick
@given(PACKED, PACKED, READING)
def test_parallel_text(source: bytes, target: bytes, options: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _write(folder, source, target)
        notes = Notes()
        try:
            (corpus,) = open_pairs(Files("0", "1"), Reading(Path(folder), **options), "data.train")
            pairs = list(corpus.read(notes))
        except UserError as error:
            assert str(error)
        else:
            assert len(pairs) + notes.dropped == notes.total
            assert all(0 < pair.line <= notes.total for pair in pairs)


@quick
@given(PACKED, READING, COLUMNS, st.sampled_from(["auto", "tsv", "jsonl"]))
def test_columns_and_json(content: bytes, options: dict[str, Any], columns: dict[str, Any], form: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _write(folder, content)
        notes = Notes()
        try:
            reading = Reading(Path(folder), form, **columns, **options)
            pairs = [
                pair for corpus in open_pairs(Files(file="0"), reading, "data.train") for pair in corpus.read(notes)
            ]
        except UserError as error:
            assert str(error)
        else:
            assert len(pairs) + notes.dropped == notes.total
            for pair in pairs:
                assert (pair.source + pair.target).encode() and "\0" not in pair.source + pair.target


@quick
@given(PACKED, READING, st.sampled_from(["line", "paragraph"]))
def test_plain_text(content: bytes, options: dict[str, Any], unit: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _write(folder, content)
        notes = Notes()
        try:
            (corpus,) = open_plain("0", Reading(Path(folder), **options), "data.train.file", unit)
            texts = list(corpus.read(notes))
        except UserError as error:
            assert str(error)
        else:
            assert len(texts) + notes.dropped == notes.total


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\n\ufeff"), max_size=20)


@quick
@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=20))
def test_text_without_line_feeds_comes_back_as_it_was(pairs: list[tuple[str, str]]) -> None:
    """Whatever else it holds, but for one carriage return at a line's end; in JSON lines even that."""
    kept = [(a, b) for a, b in pairs if a.strip() and b.strip()]
    if not kept:
        return
    with tempfile.TemporaryDirectory() as folder:
        _write(folder, *("".join(f"{pair[side]}\r\n" for pair in pairs).encode() for side in (0, 1)))
        records = [json.dumps({"source": a, "target": b}, ensure_ascii=len(a) % 2 == 0) for a, b in pairs]
        (Path(folder) / "2").write_bytes("\n".join(records).encode())
        for files in (Files("0", "1"), Files(file="2")):
            (corpus,) = open_pairs(files, Reading(Path(folder)), "data.train")
            assert [(pair.source, pair.target) for pair in corpus.read(Notes())] == kept


def _write(folder: str, *contents: bytes) -> None:
    for name, content in enumerate(contents):
        (Path(folder) / str(name)).write_bytes(content)
