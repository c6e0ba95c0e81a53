"""Tokenised pairs in a memory-mapped Arrow file: written once in bounded memory, read a row at a time."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from relformer.data.encoded import EncodedSet, Ids, Integers, hashed
from relformer.data.text.cache import cached, key_of
from relformer.data.text.notes import Notes
from relformer.data.text.tokenizer import Tokenizer
from relformer.errors import UserError

logger = logging.getLogger("relformer")

ROWS = 8192
"""Pairs in each record batch but the last, so that a row's batch is found by division."""
FORMAT = 2
IDS = pa.list_(pa.int32())


class Pair(Protocol):
    """One line of a corpus; `where` is its place, as file:line."""

    @property
    def where(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def positions(self) -> Sequence[int] | None: ...


class Pairs(Protocol):
    """One corpus of text: `digest` changes with its content and the options it is read by."""

    @property
    def name(self) -> str: ...
    def digest(self) -> str: ...
    def read(self, notes: Notes) -> Iterator[Pair]: ...


@dataclass(frozen=True)
class Stored:
    """A corpus's examples, what was noted when it was read, and how many tokens each side's vocabulary lacks."""

    examples: EncodedSet
    notes: Notes
    unknown: tuple[int, int]


def stored(pairs: Pairs, source: Tokenizer, target: Tokenizer) -> Stored:
    """The pairs as ids: tokenised now, or by an earlier run.

    Raises:
        UserError: a fault of the text, by file and line; nothing is kept then.
    """
    key = key_of(FORMAT, pairs.digest(), source.state(), target.state())
    return cached("corpora", key, ".arrow", lambda temporary: write(temporary, pairs, source, target), load)


def write(path: Path, pairs: Pairs, source: Tokenizer, target: Tokenizer) -> None:
    notes, unknown, started = Notes(), [0, 0], time.monotonic()
    rows = pairs.read(notes)
    first = list(islice(rows, ROWS))
    positioned = bool(first) and first[0].positions is not None
    schema = pa.schema([("source", IDS), ("target", IDS), ("hash", pa.uint64()), ("reference", pa.string())])
    schema = schema.append(pa.field("positions", IDS)) if positioned else schema
    console = Console(stderr=True)
    columns = (TextColumn(f"tokenising {pairs.name}"), TextColumn("{task.completed:,} pairs"), TimeElapsedColumn())
    progress = Progress(*columns, BarColumn(), console=console, transient=True, disable=not console.is_terminal)
    done = 0
    with progress, pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        task, chunk = progress.add_task("", total=None), first
        while chunk:
            arrays = encoded(chunk, source, target, unknown, positioned)
            writer.write_batch(record(arrays, schema))
            done += len(chunk)
            progress.update(task, completed=done)
            chunk = list(islice(rows, ROWS))
        state = {"notes": notes.state(), "unknown": unknown}
        writer.write_batch(
            record([[] for _ in schema], schema),
            custom_metadata={"relformer": json.dumps(state)},
        )
    seconds = time.monotonic() - started
    logger.info("tokenised %s: %s pairs, %s a second", pairs.name, f"{done:,}", f"{done / seconds:,.0f}")


def record(columns: list[list[Any]], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.record_batch(arrays, schema=schema)


def encoded(
    chunk: list[Pair], source: Tokenizer, target: Tokenizer, unknown: list[int], positioned: bool
) -> list[list[Any]]:
    """The columns of a record batch; `unknown` is counted up."""
    sides = [source.encode_batch([p.source for p in chunk]), target.encode_batch([p.target for p in chunk])]
    for number, (coder, ids) in enumerate(zip((source, target), sides, strict=True)):
        if coder.unknown is not None:
            unknown[number] += sum(row.count(coder.unknown) for row in ids)
    hashes = [hashed(pair.source, pair.target) for pair in chunk]
    columns: list[list[Any]] = [*sides, hashes, [pair.target for pair in chunk]]
    if not positioned:
        if given := next((pair for pair in chunk if pair.positions is not None), None):
            raise UserError(
                f"{given.where}: positions are given, and the first pair has none; all pairs have them, or none"
            )
        return columns
    for pair, tokens in zip(chunk, sides[0], strict=True):
        if pair.positions is None or len(pair.positions) != len(tokens):
            raise UserError(
                f"{pair.where}: {len(pair.positions or ())} positions for {len(tokens)} source tokens; each needs one "
                "(data.tokenizer.kind=word makes one token a word, char one a character)"
            )
    return [*columns, [list(p.positions or ()) for p in chunk]]


class Column(Sequence[Ids]):
    """A column of id lists in a memory-mapped Arrow file. Pickled as its path, so that workers map it themselves."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        columns = [batch.column(name) for batch in batches(path)]
        self.offsets = [column.offsets.to_numpy() for column in columns]
        self.values = [column.values.to_numpy() for column in columns]

    def __reduce__(self) -> tuple[type[Column], tuple[Path, str]]:
        return Column, (self.path, self.name)

    def __len__(self) -> int:
        return sum(len(offsets) - 1 for offsets in self.offsets)

    def __getitem__(self, row: int) -> list[int]:  # type: ignore[override]  # no slices
        number, place = divmod(row, ROWS)
        offsets = self.offsets[number]
        ids: list[int] = self.values[number][offsets[place] : offsets[place + 1]].tolist()
        return ids

    def lengths(self) -> Integers:
        return np.concatenate([np.diff(offsets).astype(np.int64) for offsets in self.offsets])


class Texts(Sequence[str]):
    """The column of references, likewise."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.columns = [batch.column("reference") for batch in batches(path)]

    def __reduce__(self) -> tuple[type[Texts], tuple[Path]]:
        return Texts, (self.path,)

    def __len__(self) -> int:
        return sum(map(len, self.columns))

    def __getitem__(self, row: int) -> str:  # type: ignore[override]  # no slices
        number, place = divmod(row, ROWS)
        text: str = self.columns[number][place].as_py()
        return text


def batches(path: Path) -> list[pa.RecordBatch]:
    reader = pa.ipc.open_file(pa.memory_map(str(path)))
    return [reader.get_batch(number) for number in range(reader.num_record_batches)]


def load(path: Path) -> Stored:
    """Raises ValueError, KeyError, TypeError or OSError where the file is damaged."""
    source, target = Column(path, "source"), Column(path, "target")
    reader = pa.ipc.open_file(pa.memory_map(str(path)))
    last = reader.get_batch_with_custom_metadata(reader.num_record_batches - 1)
    state = json.loads(last.custom_metadata[b"relformer"])
    hashes: NDArray[np.uint64] = np.concatenate([batch.column("hash").to_numpy() for batch in batches(path)])
    positions = Column(path, "positions") if "positions" in reader.schema.names else None
    examples = EncodedSet(
        source, target, source.lengths(), target.lengths(), positions, hashes=hashes, references=Texts(path)
    )
    return Stored(examples, Notes.restored(state["notes"]), tuple(state["unknown"]))
