"""Opening a file by what is in it: compressed text is recognised by its first bytes, never by the file's suffix.

Files are read from start to end without a seek, so that a pipe does as well as a file.
"""

from __future__ import annotations

import hashlib
import io
import stat
from pathlib import Path
from typing import Any, BinaryIO

from relformer.data.text.decompression import Streams, decompressor
from relformer.errors import UserError

COMPRESSED = {
    "gz": (b"\x1f\x8b",),
    "bz2": tuple(
        b"BZh%d" % level + start for level in range(1, 10) for start in (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90")
    ),
    "xz": (b"\xfd7zXZ\0",),
    "zst": (b"\x28\xb5\x2f\xfd", *(bytes([0x50 + n, 0x2A, 0x4D, 0x18]) for n in range(16))),
}
"""The second start of bz2 is an empty file's; those after the first of zst are skippable frames."""
PICKLE = tuple(bytes([0x80, protocol]) for protocol in range(2, 6))
REFUSED = (
    ((b"\xff\xfe\0\0", b"\0\0\xfe\xff"), "UTF-32 text", "convert it first: iconv -f UTF-32 -t UTF-8"),
    ((b"\xff\xfe", b"\xfe\xff"), "UTF-16 text", "convert it first: iconv -f UTF-16 -t UTF-8"),
    ((b"PK\x03\x04", b"PK\x05\x06"), "a zip archive", "unpack it and name the text files in it"),
    ((b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07"), "an archive", "unpack it and name the text files in it"),
    ((b"PAR1\x15",), "a Parquet file", "read it with data=hub, or export it as JSON lines"),
    ((b"ARROW1\0\0",), "an Arrow file", "read it with data=hub, or export it as JSON lines"),
    ((b"\x93NUMPY", b"\x89HDF", b"SQLite format 3\0"), "binary data", "export it as text, TSV or JSON lines"),
    (PICKLE, "a Python pickle", "pickles are never read; export it as text, TSV or JSON lines"),
    ((b"\x1f\x9d", b"\x04\x22\x4d\x18"), "compressed by compress or lz4", "compress it with gzip, bzip2, xz or zstd"),
    ((b"version https://git-lfs.github.com/spec/",), "a Git LFS pointer, not the data", "fetch the data: git lfs pull"),
)
"""First bytes, what the file is, the remedy."""
ZIPPED = {b"data.pkl": "a file of torch.save, which is a Python pickle", b".npy": "an archive of NumPy arrays"}
"""What the first bytes of a zip archive may name."""
HEAD = 512
BUFFER = 1 << 18


class _Read(io.RawIOBase):
    """A file of which the first bytes were read already. What reading raises for damage becomes the user's error."""

    def __init__(self, head: bytes, file: Any, path: Path, damage: tuple[type[Exception], ...] = ()) -> None:
        self._head, self._file, self._path, self._damage = head, file, path, damage

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._head:
            count = min(len(buffer), len(self._head))
            buffer[:count], self._head = self._head[:count], self._head[count:]
            return count
        try:
            return self._file.readinto(buffer) or 0
        except self._damage as error:
            raise _damaged(self._path, error) from None

    def close(self) -> None:
        self._file.close()
        super().close()


def open_bytes(path: Path) -> BinaryIO:
    """The uncompressed bytes of a text file, plain or in gz, bz2, xz or zst.

    Raises:
        UserError: it can't be opened, is an archive, UTF-16 or no text at all, or needs a package that is not there.
            Reading raises it too, where a compressed file turns out cut short or damaged.
    """
    try:
        file = open(path, "rb", buffering=0)  # noqa: SIM115  closed with what is returned
    except OSError as error:
        raise UserError(f"{path} can't be read: {error.strerror}") from None
    try:
        head = _first(file)
        opened: io.RawIOBase = _Read(head, file, path)
        kind = next((kind for kind, starts in COMPRESSED.items() if head.startswith(starts)), None)
        if kind:
            new, damage = decompressor(kind, path)
            streams = Streams(io.BufferedReader(opened, BUFFER), new)
            try:
                head = _first(streams)
            except damage as error:
                raise _damaged(path, error) from None
            opened = _Read(head, streams, path, damage)
            if any(head.startswith(starts) for starts in COMPRESSED.values()):
                raise UserError(f"{path} is compressed twice; uncompress it once")
        _refuse_what_is_no_text(head, path)
    except BaseException:
        file.close()
        raise
    return io.BufferedReader(opened, BUFFER)


def readable_once(path: Path) -> bool:
    """Whether a path is a pipe, a terminal or the like, which can be read a single time only."""
    return not stat.S_ISREG(path.stat().st_mode)


def digest(path: Path) -> str:
    """BLAKE2b of a file's raw bytes, in hexadecimal.

    Raises:
        UserError: it can't be opened, or it can be read only once, so that nothing would be left to read afterwards.
    """
    try:
        if readable_once(path):
            raise UserError(f"{path} is not a regular file: it can be read only once, and has no digest beforehand")
        with open(path, "rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=20)).hexdigest()
    except OSError as error:
        raise UserError(f"{path} can't be read: {error.strerror}") from None


def _first(file: Any) -> bytes:
    """The first bytes; a pipe may hand them out in pieces."""
    head = b""
    while len(head) < HEAD and (more := file.read(HEAD - len(head))):
        head += more
    return head


def _damaged(path: Path, error: Exception) -> UserError:
    return UserError(f"{path} is cut short or damaged: {error}; fetch or compress it again")


def _refuse_what_is_no_text(head: bytes, path: Path) -> None:
    if head[257:262] == b"ustar":
        raise UserError(f"{path} is a tar archive; unpack it (tar -xf) and name the text files in it")
    if head.startswith(b"PK\x03\x04") and (inside := next((mark for mark in ZIPPED if mark in head), None)):
        raise UserError(f"{path} is {ZIPPED[inside]}; it is never read; export it as text, TSV or JSON lines")
    for starts, what, remedy in REFUSED:
        if head.startswith(starts):
            raise UserError(f"{path} is {what}; {remedy}")
