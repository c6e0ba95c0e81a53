"""Plain text without a target: one text a line, or one a paragraph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

from relformer.data.text.corpus_files import CorpusFiles
from relformer.data.text.lines import LONGEST_LINE, Fault, read_blocks, reject
from relformer.data.text.notes import Notes
from relformer.data.text.paths import resolve
from relformer.data.text.pipes import kept
from relformer.data.text.reading import Reading
from relformer.errors import UserError

Unit = Literal["line", "paragraph"]


class Text(NamedTuple):
    """One text and the line it starts at."""

    file: Path
    line: int
    text: str

    @property
    def where(self) -> str:
        return f"{self.file.name}:{self.line}"


@dataclass(frozen=True)
class PlainFiles(CorpusFiles):
    """One corpus of plain text."""

    paths: list[Path]
    reading: Reading
    unit: Unit = "line"

    @property
    def manner(self) -> str:
        return f"{super().manner} {self.unit}"

    def kept(self) -> PlainFiles:
        """Itself with a copy of whatever can be read only once (a pipe)."""
        return replace(self, paths=list(map(kept, self.paths)))

    def read(self, notes: Notes) -> Iterator[Text]:
        """The texts in the files' order.

        Raises:
            UserError: the files can't be read or give no text; a bad line where `on_bad` is ``stop``.
        """
        kept = notes.total - notes.dropped
        for path in self.paths:
            yield from read_plain(path, self.reading, notes, self.unit)
        if notes.total - notes.dropped == kept:
            raise UserError(f"{self.paths[0]} gives no text: {'; '.join(notes.lines()) or 'it is empty'}")


def open_plain(spec: str | list[str], reading: Reading, option: str, unit: Unit = "line") -> list[PlainFiles]:
    """The corpora that a config names at `option`, not read yet.

    Raises:
        UserError: files are missing or can't be read.
    """
    return [PlainFiles(paths, reading, unit) for paths in resolve(spec, reading.folder, option)]


def read_plain(path: Path, reading: Reading, notes: Notes, unit: Unit = "line") -> Iterator[Text]:
    """The texts of a file. Paragraphs are separated by blank lines, and their lines are joined by a space; a bad line
    spoils the whole paragraph. Blank lines are counted where they are not separators.

    Raises:
        UserError: the file can't be read; a bad line where `on_bad` is ``stop``.
    """
    texts = _paragraphs(path, reading, notes) if unit == "paragraph" else _lines(path, reading, notes)
    for number, text in texts:
        notes.total += 1
        if isinstance(text, Fault):
            reject(text, path, number, "text", reading.on_bad, notes)
        else:
            yield Text(path, number, text)


def _lines(path: Path, reading: Reading, notes: Notes) -> Iterator[tuple[int, str | Fault]]:
    for block in read_blocks(path, reading.charset, notes):
        for number, text in enumerate(block.texts, block.first):
            if number in block.faults:
                yield number, block.faults[number]
            elif not text or text.isspace():
                notes.count("line without text left out", f"{path.name}:{number}")
            else:
                yield number, text


def _paragraphs(path: Path, reading: Reading, notes: Notes) -> Iterator[tuple[int, str | Fault]]:
    lines: list[str] = []
    size, start = 0, 1
    fault: tuple[int, Fault] | None = None
    for block in read_blocks(path, reading.charset, notes):
        for number, text in enumerate(block.texts, block.first):
            bad = block.faults.get(number)
            if not bad and (not text or text.isspace()):
                if lines or fault:
                    yield fault or (start, " ".join(lines))
                lines, size, fault = [], 0, None
                continue
            if not lines and not fault:
                start = number
            size += len(text)
            if not bad and size > LONGEST_LINE:
                bad = Fault(
                    "a paragraph without end",
                    f"the paragraph from line {start} on has over {LONGEST_LINE:,} characters",
                )
            if bad and not fault:
                fault, lines = (number, bad), []
            if not fault:
                lines.append(text)
    if lines or fault:
        yield fault or (start, " ".join(lines))
