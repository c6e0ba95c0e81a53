"""Bytes to lines of text. A line ends at ``\n`` and nowhere else, so that line numbers are those of ``wc -l``.

Decoding and looking for odd characters are done for about a megabyte at once; single lines are looked at only where
something was found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

from relformer.data.text import charsets
from relformer.data.text.notes import Notes
from relformer.data.text.opening import open_bytes
from relformer.errors import UserError

BLOCK = 1 << 20
LONGEST_LINE = 10 * BLOCK
"""Bytes; a longer line is a file without line ends rather than a text."""
SAMPLE = 1 << 15
UTF8_MARK = b"\xef\xbb\xbf"
ODD = {
    "\v": "a vertical tab",
    "\f": "a form feed",
    "\r": "a carriage return",
    "\x1c": "U+001C (file separator)",
    "\x1d": "U+001D (group separator)",
    "\x1e": "U+001E (record separator)",
    "\x85": "U+0085 (next line)",
    "\u2028": "U+2028 (line separator)",
    "\u2029": "U+2029 (paragraph separator)",
}
"""Line ends to ``str.splitlines`` and other tools, but not here."""
LOOKED_FOR = ("\0", "\ufeff", *ODD)
_LOOKED_FOR = re.compile(f"[{''.join(LOOKED_FOR)}]")


class Line(NamedTuple):
    """A line without its end; numbers start at 1."""

    number: int
    text: str


class Fault(NamedTuple):
    """A bad line: in a few words for a count, and as a sentence with the value and the remedy."""

    kind: str
    message: str


class Block(NamedTuple):
    """Lines that follow each other, the first one's number, and the faults of the bad ones by number."""

    first: int
    texts: list[str]
    faults: dict[int, Fault]

    def after(self, count: int) -> Block:
        """What is left behind the first `count` lines."""
        return Block(self.first + count, self.texts[count:], self.faults)


def read_lines(path: Path, charset: str, notes: Notes, on_bad: Literal["stop", "skip"] = "stop") -> Iterator[Line]:
    """The lines of a text file in a charset, empty ones included.

    A byte order mark at the start and one ``\r`` at the end of a line are dropped; characters that other tools take
    for line ends stay in the text; U+FEFF inside is removed. All but the first are noted.

    Raises:
        UserError: the file can't be read, or a line is bad (undecodable, with NUL, enormous) and `on_bad` is ``stop``.
    """
    for block in read_blocks(path, charset, notes):
        for number, text in enumerate(block.texts, block.first):
            if fault := block.faults.get(number):
                reject(fault, path, number, "line", on_bad, notes)
            else:
                yield Line(number, text)
        notes.total += len(block.texts)


def reject(fault: Fault, path: Path, number: int, unit: str, on_bad: Literal["stop", "skip"], notes: Notes) -> None:
    """What `data.on_bad` says about a bad line: count the unit (line, pair, text) it spoils as dropped, or stop.

    Raises:
        UserError: `on_bad` is ``stop``.
    """
    if on_bad == "stop":
        raise UserError(f"{path}:{number}: {fault.message}; or leave such lines out with data.on_bad=skip")
    notes.count(f"{unit} left out for a bad line: {fault.kind}", f"{path.name}:{number}", dropped=True)


def read_blocks(path: Path, charset: str, notes: Notes) -> Iterator[Block]:
    """The lines as `read_lines` gives them, in blocks of at least one, with bad lines marked instead of refused."""
    codec = charsets.checked(charset)
    number, offset, windows = 1, 0, False
    with open_bytes(path) as file:
        for chunk in _chunks(file):
            if isinstance(chunk, int):
                yield Block(number, [""], {number: _enormous(chunk)})
                number, offset = number + 1, offset + chunk
                continue
            size = len(chunk)
            if number == 1:
                chunk = _without_mark(chunk, path, codec, notes)
                if not chunk:
                    return  # nothing but the mark
            block = _decoded(chunk, number, offset + size - len(chunk), path, codec)
            if not windows and (b"\r\n" in chunk or chunk.endswith(b"\r")):
                notes.count(r"file with \r\n line ends, read as \n", path.name)
                windows = True
            _look_at_odd_characters(block, path, notes)
            yield block
            number, offset = number + len(block.texts), offset + size


def inspected(text: str, path: Path, number: int, notes: Notes) -> str | Fault:
    """A text without U+FEFF, odd characters noted; a fault where it holds NUL."""
    if not (found := set(_LOOKED_FOR.findall(text))):
        return text
    if "\0" in found:
        utf16 = charsets.looks_like_utf16(text.encode("utf-8", "replace"))
        remedy = (
            "it looks like UTF-16; convert it: iconv -f UTF-16 -t UTF-8" if utf16 else r"remove it: sed 's/\x00//g'"
        )
        return Fault("a NUL character", f"holds a NUL character at column {text.index(chr(0)) + 1}; {remedy}")
    where = f"{path.name}:{number}"
    if "\ufeff" in found:
        notes.count("line with U+FEFF (byte order mark) inside, which was removed", where)
    for character in ODD.keys() & found:
        notes.count(f"line with {ODD[character]} inside, kept: other tools take it for a line end", where)
    return text.replace("\ufeff", "")


def shortened(value: str, limit: int = 60) -> str:
    """A value for a message: quoted, and cut where it is long."""
    return repr(value if len(value) <= limit else f"{value[:limit]}...")


def _chunks(file: BinaryIO) -> Iterator[bytes | int]:
    """Whole lines, about `BLOCK` bytes at once; for a line beyond `LONGEST_LINE` only its length."""
    rest, skipped = b"", 0
    while data := file.read(BLOCK):
        if skipped:
            end = data.find(b"\n") + 1
            if not end:
                skipped += len(data)
                continue
            yield skipped + end
            skipped, data = 0, data[end:]
        cut = data.rfind(b"\n") + 1
        if cut:
            yield rest + data[:cut]
            rest = data[cut:]
        else:
            rest += data
        if len(rest) > LONGEST_LINE:
            rest, skipped = b"", len(rest)
    if skipped or rest:
        yield skipped or rest


def _without_mark(chunk: bytes, path: Path, codec: str, notes: Notes) -> bytes:
    """The start of a file without its byte order mark.

    Raises:
        UserError: the mark is UTF-8's, and `data.charset` says otherwise.
    """
    marked = chunk.startswith(UTF8_MARK)
    if codec == "utf-8":
        return chunk[len(UTF8_MARK) :] if marked else chunk
    if marked:
        raise UserError(f"{path} starts with the mark of utf-8, but data.charset={codec}; leave data.charset out")
    if charsets.looks_like_utf8(chunk):
        notes.count(f"file read as {codec} although it looks like utf-8", path.name)
    return chunk


def _decoded(chunk: bytes, first: int, offset: int, path: Path, codec: str) -> Block:
    """The lines of a chunk that starts at byte `offset` of the text.

    Raises:
        UserError: the charset makes line ends of other bytes than ``\n``.
    """
    count = chunk.count(b"\n") + (not chunk.endswith(b"\n"))
    faults: dict[int, Fault] = {}
    remedy = ""
    try:
        text = chunk.decode(codec)
    except UnicodeDecodeError:
        texts = []
        for number, line in enumerate(chunk.split(b"\n")[:count], first):
            try:
                texts.append(line.removesuffix(b"\r").decode(codec))
            except UnicodeDecodeError as error:
                texts.append("")
                remedy = remedy or charsets.remedy(_around(chunk, line), codec)
                faults[number] = _undecodable(error, offset, codec, remedy)
            offset += len(line) + 1
    else:
        texts = text.replace("\r\n", "\n").removesuffix("\r").split("\n")
        if chunk.endswith(b"\n"):
            texts.pop()
    if len(texts) != count:
        raise UserError(f"{path}: with data.charset={codec} its lines can't be told apart; convert it to utf-8 (iconv)")
    return Block(first, texts, faults)


def _look_at_odd_characters(block: Block, path: Path, notes: Notes) -> None:
    joined = "\n".join(block.texts)
    if not any(character in joined for character in LOOKED_FOR):
        return
    for index, text in enumerate(block.texts):
        seen = inspected(text, path, block.first + index, notes)
        if isinstance(seen, Fault):
            block.faults[block.first + index] = seen
        else:
            block.texts[index] = seen


def _around(chunk: bytes, line: bytes) -> bytes:
    """Whole lines to judge a charset by: those near a bad one."""
    at = chunk.index(line)
    start = chunk.rfind(b"\n", 0, max(at - SAMPLE, 0)) + 1
    end = chunk.find(b"\n", at + len(line) + SAMPLE)
    return chunk[start:] if end < 0 else chunk[start:end]


def _undecodable(error: UnicodeDecodeError, offset: int, codec: str, remedy: str) -> Fault:
    byte = error.object[error.start]
    before = shortened(error.object[: error.start].decode(codec, "replace")[-30:])
    message = f"byte 0x{byte:02x} at offset {offset + error.start:,} of the text (after {before}) is not {codec}"
    return Fault(f"bytes that are not {codec}", f"{message}; {remedy}")


def _enormous(size: int) -> Fault:
    limit = LONGEST_LINE >> 20
    rule = f"the line has {size:,} bytes, and {limit} MiB are the limit; is it text with one sentence a line?"
    return Fault(f"more than {limit} MiB long", rule)
