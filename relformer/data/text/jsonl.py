"""JSON lines: one object a line. The texts may hold tabs and line feeds, written ``\\t`` and ``\\n``: they are kept."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from relformer.data.text.lines import Block, Fault, inspected, reject, shortened
from relformer.data.text.notes import Notes
from relformer.data.text.parallel import blank_side
from relformer.data.text.reading import Pair, Reading

TYPES = {
    dict: "an object",
    list: "a list",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "null",
}
ABSENT = object()


def read_jsonl(path: Path, blocks: Iterable[Block], reading: Reading, notes: Notes) -> Iterator[Pair]:
    """The pairs in a file of objects; keys that are not asked for are ignored, but for ``positions``.

    ``positions`` are those of the source's tokens: integers from 0 that strictly increase.

    Raises:
        UserError: a bad line where `on_bad` is ``stop``.
    """
    columns = str(reading.source_column or "source"), str(reading.target_column or "target")
    for block in blocks:
        for number, line in enumerate(block.texts, block.first):
            fault = block.faults.get(number) if block.faults else None
            if not fault and (not line or line.isspace()):
                notes.count("row without text left out", f"{path.name}:{number}")
                continue
            notes.total += 1
            made = fault or _pair(line, columns, path, number, notes)
            if isinstance(made, Fault):
                reject(made, path, number, "pair", reading.on_bad, notes)
            elif not blank_side(made.source, made.target, path, number, notes):
                yield made


def _pair(line: str, columns: tuple[str, str], path: Path, number: int, notes: Notes) -> Pair | Fault:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else str(error)
        whole = "; the file is to have one object a line" if number == 1 else ""
        return Fault("broken JSON", f"is no JSON ({reason}){whole}: {shortened(line)}")
    if not isinstance(record, dict):
        found = TYPES.get(type(record), "a string")
        return Fault("no JSON object", f"must hold an object such as {{'source': ..., 'target': ...}}, not {found}")
    texts = []
    for column in columns:
        text = _value(record, column)
        if not isinstance(text, str):
            return _no_text(text, column, record)
        seen = _inspected(text, column, path, number, notes) if "\\" in line else text
        if isinstance(seen, Fault):
            return seen
        texts.append(seen)
    positions = _positions(record["positions"]) if "positions" in record else None
    if isinstance(positions, Fault):
        return positions
    return Pair(path, number, texts[0], texts[1], positions)


def _value(record: dict[str, Any], column: str) -> Any:
    """What stands under a key as it is, under a dotted path, or in the ``translation`` of the Hugging Face hub."""
    if column in record:
        return record[column]
    for path in (column.split("."), ["translation", column]):
        value: Any = record
        for key in path:
            value = value.get(key, ABSENT) if isinstance(value, dict) else ABSENT
        if value is not ABSENT:
            return value
    return ABSENT


def _no_text(value: Any, column: str, record: dict[str, Any]) -> Fault:
    if value is not ABSENT:
        found = TYPES.get(type(value), "no text")
        return Fault(
            f"{column} is no text", f"{column!r} must be a string, not {found}: {shortened(json.dumps(value))}"
        )
    has = ", ".join(map(str, list(record)[:10])) or "nothing"
    nested = record.get("translation")
    if isinstance(nested, dict):
        languages = [*nested, "?", "?"][:2]
        has += f"; in translation: {', '.join(map(str, nested))}"
        hint = f"data.source_column={languages[0]} data.target_column={languages[1]}"
    else:
        hint = "data.source_column and data.target_column"
    return Fault(f"no key {column}", f"key {column!r} is missing (has: {has}); name the keys with {hint}")


def _inspected(text: str, column: str, path: Path, number: int, notes: Notes) -> str | Fault:
    """A text that may have been written with escapes, which hide odd characters from the look at the raw lines."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = f"{column!r} holds half a surrogate pair (\\u{ord(text[error.start]):04x}), which is no character"
        return Fault("half a surrogate pair", f"{half}; write the character itself")
    return inspected(text, path, number, notes)


def _positions(value: Any) -> tuple[int, ...] | Fault:
    if isinstance(value, list) and all(type(item) is int for item in value):
        increasing = all(one < other for one, other in pairwise(value))
        if increasing and (not value or value[0] >= 0):
            return tuple(value)
    rule = "'positions' must be a list of integers from 0 that strictly increase"
    return Fault("positions that are none", f"{rule}: {shortened(json.dumps(value))}")
