"""What can be read only once: pipes, and what a shell makes of them."""

import gzip
import os
import threading
from pathlib import Path

import pytest

from relformer.data.text.lines import BLOCK
from relformer.data.text.notes import Notes
from relformer.data.text.pairs import Files, Reading, open_pairs
from relformer.errors import UserError
from tests.data.text.corpora import read, sides, write


def test_pipes_are_read_once_from_start_to_end(tmp_path: Path) -> None:
    """neuralmonkey#99: `<(zcat ...)`; here with compressed bytes that arrive one by one."""
    pipe, link = tmp_path / "train.en", tmp_path / "train.de"
    os.mkfifo(pipe)
    count = BLOCK // 1_000
    write(tmp_path, real_de="z" * 2_000 + "\n" + "x\n" * count)
    link.symlink_to("real.de")

    def feed() -> None:
        packed = gzip.compress(b"one\n" + b"y\n" * count, mtime=0)
        with open(pipe, "wb", buffering=0) as written:
            for start in range(20):
                written.write(packed[start : start + 1])
            written.write(packed[20:])

    (corpus,) = open_pairs(Files("train.en", "train.de"), Reading(folder=tmp_path), "data.train")
    assert corpus.once
    with pytest.raises(UserError, match=r"train\.en is not a regular file: it can be read only once"):
        corpus.digest()
    feeder = threading.Thread(target=feed)
    feeder.start()
    pairs = list(corpus.read(Notes()))
    feeder.join()
    assert sides(pairs) == [("one", "z" * 2_000), *[("y", "x")] * count]


def test_process_substitution(tmp_path: Path) -> None:
    """The link behind /dev/fd leads nowhere that exists, so paths must not be resolved."""
    write(tmp_path, train_de="eins\nzwei\n")
    reading, writing = os.pipe()
    os.write(writing, b"one\ntwo\n")
    os.close(writing)
    try:
        assert sides(read(tmp_path, Files(f"/dev/fd/{reading}", "train.de"))) == [("one", "eins"), ("two", "zwei")]
    finally:
        os.close(reading)
