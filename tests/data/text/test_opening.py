"""Compressed bytes against the compressors' own, whole, cut at every byte, and followed by what does not belong."""

import bz2
import gzip
import lzma
import os
import random
import sys
import tracemalloc
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from relformer.data.text.opening import HEAD, digest, open_bytes
from relformer.errors import UserError


def zstd(data: bytes) -> bytes:
    return pytest.importorskip("zstandard").ZstdCompressor(write_checksum=True).compress(data)  # type: ignore[no-any-return]


COMPRESSORS = [gzip.compress, bz2.compress, lzma.compress, zstd]
TEXTS = [b"", b"short\n", b"a\n" * 300_000, random.Random(0).randbytes(300_000)]


def content(path: Path, data: bytes) -> bytes:
    path.write_bytes(data)
    with open_bytes(path) as file:
        return file.read()


@pytest.mark.parametrize("compress", COMPRESSORS)
@pytest.mark.parametrize("text", TEXTS, ids=["empty", "short", "repetitive", "random"])
def test_streams_and_their_concatenations_give_their_text(
    tmp_path: Path, compress: Callable[[bytes], bytes], text: bytes
) -> None:
    path = tmp_path / "text"
    assert content(path, compress(text)) == text
    assert content(path, compress(text) + compress(b"") + compress(b"more")) == text + b"more"
    assert content(path, compress(text) + bytes(100_000)) == text  # padded, as tapes and xz do


@pytest.mark.parametrize("compress", COMPRESSORS)
def test_a_stream_cut_anywhere_is_an_error(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    packed = compress(random.Random(0).randbytes(2 * HEAD).hex().encode())
    for length in [*range(12, 40), *range(40, len(packed), 37), len(packed) - 1]:
        with pytest.raises(UserError, match="cut short or damaged"):
            content(tmp_path / "text", packed[:length])
    with pytest.raises(UserError, match="cut short or damaged"):
        content(tmp_path / "text", packed + b"and some text\n")
    middle = len(packed) // 2
    with pytest.raises(UserError, match="cut short or damaged"):
        content(tmp_path / "text", packed[:middle] + bytes(20) + packed[middle + 20 :])


def test_a_skippable_frame_before_zstd_is_skipped(tmp_path: Path) -> None:
    assert content(tmp_path / "text", b"\x50\x2a\x4d\x18\x04\0\0\0abcd" + zstd(b"text\n")) == b"text\n"


def test_without_a_package_zstd_is_refused_by_the_extra_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"\x28\xb5\x2f\xfd")
    for module in ("zstandard", "compression.zstd"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError, match=r"needs a package: pip install 'relformer\[zstd\]'$"):
        open_bytes(path)


@pytest.mark.skipif(find_spec("compression") is None, reason="compression.zstd came with Python 3.14")
def test_python_reads_zstd_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = zstd(b"text\n")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    assert content(tmp_path / "text", packed) == b"text\n"


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (b"PK\x03\x04", "is a zip archive; unpack it"),
        (b"\xff\xfea\0", "is UTF-16 text; convert it first: iconv -f UTF-16 -t UTF-8"),
        (b"\xff\xfe\0\0a\0\0\0", "is UTF-32 text; convert it first"),
        (b"PAR1\x15\x04", "is a Parquet file; read it with data=hub"),
        (b"\x93NUMPY\x01", "is binary data"),
        (b"\x80\x04\x95", "is a Python pickle; pickles are never read"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer, not the data; fetch"),
        (gzip.compress(b"twice\n", mtime=0), "is compressed twice; uncompress it once"),
    ],
)
def test_what_is_no_text_is_refused_by_name(tmp_path: Path, start: bytes, message: str) -> None:
    with pytest.raises(UserError, match=f"packed {message}"):
        content(tmp_path / "packed", gzip.compress(start, mtime=0))
    if not start.startswith(b"\x1f\x8b"):
        with pytest.raises(UserError, match=f"plain {message}"):
            content(tmp_path / "plain", start)


@pytest.mark.parametrize("text", [b"BZh9 is how bzip2 starts", b"PAR1 text", b"(\xc2\xb5/", b"ustar\n", b"\x1f"])
def test_text_that_starts_like_something_else_is_text(tmp_path: Path, text: bytes) -> None:
    assert content(tmp_path / "text", text) == text


@pytest.mark.parametrize("compress", COMPRESSORS[::2] + COMPRESSORS[3:])
def test_memory_does_not_grow_with_what_a_stream_expands_to(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    (tmp_path / "text").write_bytes(compress(bytes(60_000_000)))
    tracemalloc.start()
    with open_bytes(tmp_path / "text") as file:
        assert sum(len(data) for data in iter(lambda: file.read(1 << 20), b"")) == 60_000_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40_000_000


def test_what_cannot_be_opened_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nothing can't be read: No such file or directory$"):
        open_bytes(tmp_path / "nothing")
    with pytest.raises(UserError, match=r"can't be read: Is a directory$"):
        open_bytes(tmp_path)


def test_the_digest_is_of_the_raw_bytes(tmp_path: Path) -> None:
    for name, data in (("a", b"text\n"), ("b", b"text\n"), ("c", gzip.compress(b"text\n", mtime=0))):
        (tmp_path / name).write_bytes(data)
    digests = [digest(tmp_path / name) for name in "abc"]
    assert digests[0] == digests[1] != digests[2] and len(digests[0]) == 40
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="can be read only once"):
        digest(tmp_path / "pipe")
