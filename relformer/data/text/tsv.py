"""Tab-separated columns without quoting: a tab ends a field, a line feed ends a row, quotes are text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from relformer.data.text.lines import Block, Fault, reject, shortened
from relformer.data.text.notes import Notes
from relformer.data.text.parallel import blank_side
from relformer.data.text.reading import Pair, Reading
from relformer.errors import UserError

NAMES = ["source", "target"]
NUMBERS = "data.source_column=1 data.target_column=2"


class Layout(NamedTuple):
    """Number of columns, where the two sides stand, whether the row it was taken from is a header, and why so many
    columns are expected."""

    width: int
    source: int
    target: int
    header: bool
    reason: str


def read_tsv(path: Path, blocks: Iterable[Block], reading: Reading, notes: Notes) -> Iterator[Pair]:
    """The pairs in a file of columns, of which the first row that is not blank says how they lie.

    Raises:
        UserError: a column that is not there; a bad row where `on_bad` is ``stop``.
    """
    layout = None
    for block in blocks:
        for number, row in enumerate(block.texts, block.first):
            fault = block.faults.get(number) if block.faults else None
            if not fault and (not row or (row.isspace() and "\t" not in row)):
                notes.count("row without text left out", f"{path.name}:{number}")
                continue
            fields = row.split("\t")
            if not fault:
                if layout is None:
                    layout = _layout(fields, path, number, reading)
                    if layout.header:
                        continue
                if len(fields) != layout.width:
                    fault = _wrong_width(fields, layout)
            notes.total += 1
            if fault:
                reject(fault, path, number, "pair", reading.on_bad, notes)
            elif layout:
                source, target = fields[layout.source], fields[layout.target]
                if not blank_side(source, target, path, number, notes):
                    yield Pair(path, number, source, target)


def _layout(fields: list[str], path: Path, number: int, reading: Reading) -> Layout:
    lowered = [field.strip().lower() for field in fields]
    if reading.source_column is None or reading.target_column is None:
        if set(NAMES) <= set(lowered):
            indices = [_index(name, lowered, path, number) for name in NAMES]
            return Layout(len(fields), indices[0], indices[1], True, "as in the header")
        return Layout(2, 0, 1, False, "as data.source_column and data.target_column are not set")
    wanted = (reading.source_column, reading.target_column)
    source, target = (_index(column, fields, path, number) for column in wanted)
    if source == target:
        raise UserError(f"data.source_column={wanted[0]} and data.target_column={wanted[1]} are one column of {path}")
    header = not all(map(_is_number, wanted)) or [lowered[source], lowered[target]] == NAMES
    return Layout(len(fields), source, target, header, f"as in line {number}")


def _is_number(column: str | int) -> bool:
    return isinstance(column, int) or column.isdecimal()


def _index(column: str | int, fields: list[str], path: Path, number: int) -> int:
    """Where a column stands, by its number or by its name in the header; digits are always a number."""
    if _is_number(column):
        if not 1 <= int(column) <= len(fields):
            raise UserError(f"{path}:{number}: there is no column {column}, the row has {len(fields)}")
        return int(column) - 1
    if fields.count(str(column)) > 1:
        raise UserError(f"{path}:{number}: the header names column {column!r} twice; give its number instead")
    if column in fields:
        return fields.index(str(column))
    has = ", ".join(shortened(field, 20) for field in fields[:10])
    raise UserError(f"{path}:{number}: the header has no column {column!r} (has: {has}); name one or give its number")


def _wrong_width(fields: list[str], layout: Layout) -> Fault:
    found = f"{len(fields)} field{'' if len(fields) == 1 else 's'}"
    message = f"has {found}, and {layout.width} are expected {layout.reason}; columns are separated by tabs"
    if len(fields) > layout.width:
        message += " and a tab can't be part of a text" if layout.header else f"; name two of them, e.g. {NUMBERS}"
    return Fault("wrong number of fields", f"{message}: {shortened(' | '.join(fields))}")
