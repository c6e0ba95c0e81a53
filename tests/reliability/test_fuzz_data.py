"""Any bytes as data, in every format, through the command that looks at data: exit code 0 or 2, never a traceback."""

import bz2
import gzip
import io
import lzma
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relformer import config
from tests.cli.runs import here

FRAGMENTS = [
    *(b"\n", b"\r\n", b"\t", b" ", b"a b c", b"source\ttarget\n", b'{"source": "a", "target": "b"}\n', b'{"source": "'),
    *(b'", "target": "', b'"}', b"\\ud800", b"{", b"[", b"null", b"\0", b"\xff", b"\xef\xbb\xbf", b"\xe2\x80\xa8"),
    *(b"\xc3\xa9", b"\x85", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"BZh91AY&SY", b"\xfd7zXZ\0", b"PK\x03\x04", b"PAR1"),
    *(b"ARROW1\0\0", b"\x93NUMPY", b"\x80\x04", b"version https://git-lfs.github.com/spec/v1\n", b"a\tb\n" * 30),
]
BYTES = st.one_of(st.binary(max_size=200), st.lists(st.sampled_from(FRAGMENTS), max_size=30).map(b"".join))
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
}
TEXT = st.one_of(
    st.text(max_size=10), st.none(), st.integers(), st.binary(max_size=4), st.lists(st.integers(), max_size=2)
)


WORDS = st.one_of(st.text(max_size=10), st.none())


def one_line(content: bytes) -> bytes:
    return content.replace(b"\n", b" ")


def two_files(pairs: list[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
    source, target = (b"".join(each + b"\n" for each in side) for side in zip(*pairs, strict=True))
    return source, target


def columns(kind: str, pairs: list[tuple[object, object]]) -> bytes:
    """A table of two columns of whatever they are, as far as Arrow takes them."""
    sides = list(zip(*pairs, strict=True)) or [(), ()]
    try:
        table = pa.table({name: list(side) for name, side in zip(("source", "target"), sides, strict=True)})
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        table = pa.table({"source": [str(s) for s in sides[0]]})
    sink = io.BytesIO()
    if kind == "parquet":
        parquet.write_table(table, sink)
    else:
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    return sink.getvalue()


def damaged(content: bytes, at: int, how: int) -> bytes:
    """Whole, cut off, or with a byte changed."""
    place = at % (len(content) + 1)
    changed = content[:place] + bytes([at % 256]) + content[place + 1 :]
    return [content, content, content[:place], changed][how % 4]


def looked_at(files: dict[str, bytes], *overrides: str) -> None:
    """`relformer data` in a folder that holds the files, and must hold nothing else afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        ended = here("data", "data.tokenizer.kind=char", "data.most_dropped=1", *overrides, cwd=Path(folder))
        assert ended.code in (0, 2) and "Traceback" not in ended.error, ended.error
        assert (ended.code == 2) == ended.error.startswith("error: "), ended.error
        assert {path.name for path in Path(folder).iterdir()} == set(files)
    ENDED[str(ended.code)] += 1


ENDED: Counter[str] = Counter()
"""How often each exit code was seen."""
EVALUATED = ("data.val.file=val", "data.test.file=test")
GOOD = {"val": b"a b\tb a\n", "test": b"b b\tb b\n"}
ROWS: list[tuple[object, object]] = [(f"a {number}", f"{number} b") for number in range(25)]
ON_BAD = st.sampled_from(["data.on_bad=stop", "data.on_bad=skip"])
NAMES = ["t.tsv", "t.jsonl", "t.txt", "t.csv", "t.pt", "t.npy", "t.gz"]
PACKED = st.tuples(BYTES, st.sampled_from(sorted(PACKERS)), st.integers(0, 999), st.integers(0, 7)).map(
    lambda each: damaged(PACKERS[each[1]](each[0]), each[2], each[3])
)


def lines(sides: tuple[bytes, bytes], on_bad: str) -> None:
    source, target = sides
    train = ("data.train.source=a", "data.train.target=b")
    looked_at({"a": source, "b": target, **GOOD}, "data=text_files", *train, *EVALUATED, on_bad)


def one_file(content: bytes, name: str, on_bad: str) -> None:
    looked_at({name: content, **GOOD}, "data=text_files", f"data.train.file={name}", *EVALUATED, on_bad)


def table(pairs: list[tuple[object, object]], kind: str, at: int, how: int, on_bad: str) -> None:
    splits = ("data.train_split=null", "data.val_split=null", "data.test_split=null", "data.held_out=1")
    content = damaged(columns(kind, [*ROWS, *pairs]), at, how)
    looked_at({f"t.{kind}": content}, "data=hub", f"data.path=t.{kind}", *splits, on_bad)


@pytest.fixture(autouse=True)
def composed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The configurations differ by few overrides, and composing is what would take the time."""
    config.prepare()
    compose = config.compose
    known = cache(lambda overrides: compose(list(overrides)))
    monkeypatch.setattr(config, "compose", lambda overrides: known(tuple(overrides)))
    monkeypatch.setattr(config, "prepare", lambda: None)
    ENDED.clear()


def fuzz(each: int) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Settings of both sizes: the same examples on every machine."""
    return settings(
        max_examples=each, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )


def run(count: int) -> None:
    line = st.one_of(st.sampled_from([b"a b", b"c", b"d e f"]), st.sampled_from(FRAGMENTS).map(one_line))
    sides = st.lists(st.tuples(line, line), min_size=1, max_size=20).map(two_files)
    fuzz(count)(given(st.one_of(sides, sides, st.tuples(PACKED, PACKED)), ON_BAD)(lines))()
    rows = st.one_of(PACKED, st.lists(line, max_size=9).map(lambda each: b"a b\tb\n" + b"\n".join(each)))
    fuzz(count)(given(rows, st.sampled_from(NAMES), ON_BAD)(one_file))()
    rows = st.one_of(st.lists(st.tuples(WORDS, WORDS), max_size=9), st.lists(st.tuples(TEXT, TEXT), max_size=30))
    places = (st.integers(0, 9999), st.integers(0, 7))
    fuzz(count)(given(rows, st.sampled_from(["parquet", "arrow"]), *places, ON_BAD)(table))()


def test_some_bytes_as_data() -> None:
    run(17)
    assert ENDED["0"] and ENDED["2"]


@pytest.mark.slow
def test_many_bytes_as_data() -> None:
    """500 in each of the three ways to give data."""
    run(500)
    assert min(ENDED.values()) > 100, ENDED
