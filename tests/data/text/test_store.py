"""The store: what was read comes back, once and for all, whatever its size; faults leave nothing behind."""

import os
import pickle
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from filelock import FileLock

from relformer.data.text import store
from relformer.data.text.cache import cached
from relformer.data.text.notes import Notes
from relformer.data.text.pipes import kept
from relformer.data.text.store import Column, Pair, stored
from relformer.data.text.tokenizer import Tokenizer, TokenizerOptions, train_tokenizer
from relformer.errors import UserError
from relformer.files import write_text

WORDS = ["one", "two", "three", "four", "five", "six"]


class Made(NamedTuple):
    where: str
    source: str
    target: str
    positions: tuple[int, ...] | None = None


class Lines:
    """Pairs out of the air; `reads` counts how often they were asked for."""

    name = "made up"

    def __init__(self, pairs: list[Made], digest: str = "d", fault_after: int | None = None) -> None:
        self.pairs, self.known, self.fault_after, self.reads = pairs, digest, fault_after, 0

    def digest(self) -> str:
        return self.known

    def read(self, notes: Notes) -> Iterator[Pair]:
        self.reads += 1
        notes.count("pair with an empty side left out", "x:7", dropped=True)
        for number, pair in enumerate(self.pairs):
            if number == self.fault_after:
                raise UserError("x:9: a fault")
            yield pair


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RELFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(store, "ROWS", 4)
    return tmp_path / "cache"


def words() -> Tokenizer:
    return train_tokenizer(WORDS, TokenizerOptions(kind="word", size=100), progress=False)


def pairs(n: int) -> list[Made]:
    rows = [[WORDS[(row * 7 + place) % 6] for place in range(1 + row % 5)] for row in range(n)]
    return [Made(f"x:{n}", " ".join(row), " ".join(reversed(row))) for n, row in enumerate(rows)]


@pytest.mark.parametrize("n", [1, 3, 4, 5, 8, 23])
def test_what_was_read_comes_back(cache: Path, n: int) -> None:
    coder, made = words(), pairs(n)
    found = stored(Lines(made), coder, coder)
    assert [coder.decode(ids) for ids in found.examples.sources] == [pair.source for pair in made]
    assert [coder.decode(ids) for ids in found.examples.targets] == [pair.target for pair in made]
    assert found.examples.source_lengths.tolist() == [len(pair.source.split()) for pair in made]
    assert len(found.examples) == n and found.unknown == (0, 0)
    assert found.notes.lines() == ["1 pair with an empty side left out (first: x:7)"]


def test_a_second_run_does_not_read_again(cache: Path) -> None:
    coder, lines = words(), Lines(pairs(9))
    first, second = stored(lines, coder, coder), stored(lines, coder, coder)
    assert lines.reads == 1
    assert list(first.examples.sources) == list(second.examples.sources)
    assert second.notes.lines() == first.notes.lines()
    stored(Lines(pairs(9), digest="another"), coder, coder)
    other = train_tokenizer(WORDS, TokenizerOptions(kind="char"), progress=False)
    again = Lines(pairs(9))
    stored(again, coder, other)
    assert again.reads == 1


def test_equal_pairs_have_equal_hashes(cache: Path) -> None:
    made = [Made("x", "one", "two"), Made("x", "one two", ""), Made("x", "one", "two")]
    hashes = stored(Lines(made), words(), words()).examples.hashes.tolist()
    assert hashes[0] == hashes[2] != hashes[1]


def test_unknown_tokens_are_counted(cache: Path) -> None:
    made = [Made("x", "one seven seven", "eight"), *pairs(6)]
    assert stored(Lines(made), words(), words()).unknown == (2, 1)


@pytest.mark.parametrize("after", [0, 2, 7])
def test_a_fault_leaves_nothing(cache: Path, after: int) -> None:
    with pytest.raises(UserError, match="x:9: a fault"):
        stored(Lines(pairs(9), fault_after=after), words(), words())
    assert [path.name for path in (cache / "corpora").iterdir() if path.suffix != ".lock"] == []


def test_a_column_is_pickled_as_its_path(cache: Path) -> None:
    coder = words()
    sources = stored(Lines(pairs(9)), coder, coder).examples.sources
    assert isinstance(sources, Column)
    content = pickle.dumps(sources)
    assert len(content) < 500 and list(pickle.loads(content)) == list(sources)


def test_positions_go_with_their_tokens(cache: Path) -> None:
    made = [Made("x:1", "one two", "two", (1, 5)), Made("x:2", "six", "six", (3,))]
    found = stored(Lines(made), words(), words()).examples
    assert found.positions is not None and list(found.positions) == [[1, 5], [3]]
    made[1] = made[1]._replace(positions=(3, 4))
    with pytest.raises(UserError, match=r"x:2: 2 positions for 1 source tokens; each needs one .*kind=word"):
        stored(Lines(made, "wrong"), words(), words())
    made[1] = made[1]._replace(positions=None)
    with pytest.raises(UserError, match=r"x:2: 0 positions for 1 source tokens"):
        stored(Lines(made, "none"), words(), words())
    late = [*pairs(6), Made("x:7", "six", "six", (3,))]
    with pytest.raises(UserError, match=r"x:7: positions are given, and the first pair has none; all pairs have them"):
        stored(Lines(late, "late"), words(), words())


@pytest.mark.parametrize("content", [b"", b"ARROW1", None])
def test_a_damaged_file_is_made_again(cache: Path, content: bytes | None, caplog: pytest.LogCaptureFixture) -> None:
    lines, coder = Lines(pairs(9)), words()
    stored(lines, coder, coder)
    (path,) = (cache / "corpora").glob("*.arrow")
    path.write_bytes(path.read_bytes()[:-9] if content is None else content)
    assert [coder.decode(ids) for ids in stored(lines, coder, coder).examples.sources] == [p.source for p in pairs(9)]
    assert lines.reads == 2 and f"{path} is damaged and is made again" in caplog.text
    stored(lines, coder, coder)
    assert lines.reads == 2


def test_what_a_killed_process_left_is_cleared(cache: Path) -> None:
    lines, coder = Lines(pairs(9)), words()
    stored(lines, coder, coder)
    (path,) = (cache / "corpora").glob("*.arrow")
    path.rename(path.with_name(f".{path.stem}.1.tmp.arrow"))
    stored(lines, coder, coder)
    assert sorted(p.suffix for p in path.parent.iterdir()) == [".arrow", ".lock"] and path.exists()


def test_waiting_for_another_process_is_said(
    cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "relformer")
    monkeypatch.setattr("relformer.data.text.cache.PATIENCE", 0.05)
    (cache / "things").mkdir(parents=True)
    held = threading.Event()

    def hold() -> None:
        with FileLock(cache / "things" / "key.lock"):
            held.set()
            time.sleep(0.3)

    threading.Thread(target=hold).start()
    held.wait()
    assert cached("things", "key", ".txt", lambda path: write_text(path, "made"), Path.read_text) == "made"
    assert "waiting for another process, which makes the same of the things" in caplog.text


def test_a_cache_that_can_not_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("RELFORMER_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match=r"can't hold tokenised data .*; set RELFORMER_CACHE to a folder with room"):
        stored(Lines(pairs(3)), words(), words())
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match=r"file/pipes can't hold tokenised data .*; set RELFORMER_CACHE"):
        kept(tmp_path / "pipe")
