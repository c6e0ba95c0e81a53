"""How files of pairs are read, and what a pair is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from relformer.data.text import charsets
from relformer.errors import OptionError


class Pair(NamedTuple):
    """One example, as in its files but for what `lines` removes. In parallel text `file` is the source's."""

    file: Path
    line: int
    source: str
    target: str
    positions: tuple[int, ...] | None = None

    @property
    def where(self) -> str:
        return f"{self.file.name}:{self.line}"


@dataclass(frozen=True)
class Reading:
    """Options for all files of a data set.

    Attributes:
        folder: what relative file names are relative to; None is the working directory.
        format: of files that hold both sides; ``auto`` goes by the suffix and else by the first line.
        source_column, target_column: a name in the header (TSV), a number from 1 (TSV), or a key, dotted where nested
            (JSON lines); None for both is ``source`` and ``target``, and in a TSV without header the only two columns.
        charset: of the text; JSON lines are to be UTF-8 by their standard, but may differ.
        on_bad: at a line that can't be an example, ``stop``, or count and ``skip`` it.
    """

    folder: Path | None = None
    format: Literal["auto", "parallel", "tsv", "jsonl"] = "auto"
    source_column: str | int | None = None
    target_column: str | int | None = None
    charset: str = "utf-8"
    on_bad: Literal["stop", "skip"] = "stop"

    def __post_init__(self) -> None:
        charsets.checked(self.charset)
        columns = {"source_column": self.source_column, "target_column": self.target_column}
        for name, column in columns.items():
            if column is None and set(columns.values()) != {None}:
                raise OptionError(name, None, "must be given too, as the other column is", "data")
            if column == "" or isinstance(column, bool) or (isinstance(column, int) and column < 1):
                raise OptionError(name, column, "must be a column's name or its number, counted from 1", "data")
        if self.source_column is not None and self.source_column == self.target_column:
            raise OptionError("target_column", self.target_column, "is the source_column as well", "data")
