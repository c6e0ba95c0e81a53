"""Compressed streams as one readable file: every member read, a stream cut short or damaged an error.

The readers of the standard library and of ``zstandard`` differ here: some stop silently at a cut frame or at bytes
that follow a stream. So the decompressor objects are driven by one loop.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from relformer.errors import UserError

CHUNK = 1 << 16
ZSTD_CHUNK = 1 << 9
"""zstandard takes no limit on its output; small pieces of input bound it, to 16 MB at the worst."""


class Decompressor(Protocol):
    """The interface of ``bz2.BZ2Decompressor``: one stream, fed in pieces."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class Streams(io.RawIOBase):
    """The text of the compressed streams in `file`, one after the other; zero padding between them is skipped.

    Raises:
        EOFError: the file ends inside a stream.
        OSError, zlib.error, lzma.LZMAError, zstandard.ZstdError: a stream is damaged, or followed by anything else.
    """

    def __init__(self, file: BinaryIO, new: Callable[[], Decompressor]) -> None:
        self._file, self._new = file, new
        self._stream, self._waiting = new(), b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        text = self._next(len(buffer))
        buffer[: len(text)] = text
        return len(text)

    def close(self) -> None:
        self._file.close()
        super().close()

    def _next(self, size: int) -> bytes:
        while True:
            if self._stream.eof and not self._another_stream():
                return b""
            data = b""
            if self._stream.needs_input:
                data, self._waiting = self._waiting or self._file.read(CHUNK), b""
                if not data:
                    raise EOFError("it ends inside a compressed stream")
            if text := self._stream.decompress(data, size):
                return text

    def _another_stream(self) -> bool:
        data = self._stream.unused_data or self._file.read(CHUNK)
        while data and not (begun := data.lstrip(b"\0")):
            data = self._file.read(CHUNK)
        if data:
            self._stream, self._waiting = self._new(), begun
        return bool(data)


class _Gzip:
    """zlib's object with the interface of the others."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=31)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        text = self._stream.decompress(self._stream.unconsumed_tail + data, max_length)
        self.needs_input = not self._stream.unconsumed_tail and len(text) < max_length
        return text


class _Zstandard:
    """The object of the ``zstandard`` package with the interface of the others."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._coming, self._ready = stream, b"", b""

    @property
    def needs_input(self) -> bool:
        return not self._ready and not self._coming

    @property
    def eof(self) -> bool:
        return not self._ready and bool(self._stream.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._stream.unused_data) + self._coming

    def decompress(self, data: bytes, max_length: int) -> bytes:
        self._coming += data
        if not self._ready:
            self._ready = self._stream.decompress(self._coming[:ZSTD_CHUNK])
            self._coming = self._coming[ZSTD_CHUNK:]
        text, self._ready = self._ready[:max_length], self._ready[max_length:]
        return text


def decompressor(kind: str, path: Path) -> tuple[Callable[[], Decompressor], tuple[type[Exception], ...]]:
    """What makes a decompressor of a kind (gz, bz2, xz, zst), and the exceptions that mean damage.

    Raises:
        UserError: nothing installed reads zstd.
    """
    if kind == "gz":
        return _Gzip, (EOFError, zlib.error)
    if kind == "bz2":
        return bz2.BZ2Decompressor, (EOFError, OSError)
    if kind == "xz":
        return lzma.LZMADecompressor, (EOFError, lzma.LZMAError)
    try:
        zstd: Any = import_module("compression.zstd")  # Python 3.14's own
        return zstd.ZstdDecompressor, (EOFError, zstd.ZstdError)
    except ImportError:
        pass
    try:
        zstandard: Any = import_module("zstandard")
    except ImportError:
        raise UserError(
            f"{path} is compressed with zstd, which needs a package: pip install 'relformer[zstd]'"
        ) from None
    return lambda: _Zstandard(zstandard.ZstdDecompressor().decompressobj()), (EOFError, zstandard.ZstdError)
