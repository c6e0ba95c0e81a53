"""Corpora of pairs in the user's files: parallel text, tab-separated columns or JSON lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from relformer.data.text.corpus_files import CorpusFiles
from relformer.data.text.jsonl import read_jsonl
from relformer.data.text.lines import Block, read_blocks
from relformer.data.text.notes import Notes
from relformer.data.text.parallel import read_parallel
from relformer.data.text.paths import resolve, without_compression
from relformer.data.text.pipes import kept
from relformer.data.text.reading import Pair, Reading
from relformer.data.text.tsv import read_tsv
from relformer.errors import UserError

__all__ = ["Files", "Pair", "PairFiles", "Reading", "open_pairs"]

READERS = {"tsv": read_tsv, "jsonl": read_jsonl}
FORMATS = {".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}


@dataclass(frozen=True)
class Files:
    """What a set's config says: `source` and `target` (parallel text) or `file` (both sides in one), each a name or a
    list of names; `weights` is for who mixes the corpora."""

    source: Any = None
    target: Any = None
    file: Any = None
    weights: Any = None


@dataclass(frozen=True)
class PairFiles(CorpusFiles):
    """One corpus: files with both sides, or as many of either side."""

    sources: tuple[Path, ...]
    targets: tuple[Path, ...]
    """Empty where the sources' files hold both sides."""
    reading: Reading

    @property
    def paths(self) -> list[Path]:  # type: ignore[override]
        return [*self.sources, *self.targets]

    @property
    def manner(self) -> str:
        return f"{super().manner} {len(self.targets)} targets"

    def kept(self) -> PairFiles:
        """Itself with a copy of whatever can be read only once (a pipe)."""
        return replace(self, sources=tuple(map(kept, self.sources)), targets=tuple(map(kept, self.targets)))

    @property
    def name(self) -> str:
        more = f" and {len(self.sources) - 1} more" if len(self.sources) > 1 else ""
        return " + ".join(side[0].name for side in (self.sources, self.targets) if side) + more

    def read(self, notes: Notes) -> Iterator[Pair]:
        """The pairs in the files' order. What is found at a file's end (unequal counts, damage) shows only when all
        are taken.

        Raises:
            UserError: the files can't be read, don't fit each other, or give no pair; a bad line where `on_bad` is
                ``stop``.
        """
        kept = notes.total - notes.dropped
        if self.targets:
            for source, target in zip(self.sources, self.targets, strict=True):
                yield from read_parallel(source, target, self.reading, notes)
        else:
            for path in self.sources:
                blocks = read_blocks(path, self.reading.charset, notes)
                first = next(blocks, None)
                if first:
                    read = READERS[_format(path, first, self.reading)]
                    yield from read(path, chain([first], blocks), self.reading, notes)
        if notes.total - notes.dropped == kept:
            raise UserError(f"{self.paths[0]} gives no pair: {'; '.join(notes.lines()) or 'it has no rows'}")


def open_pairs(files: Files, reading: Reading, option: str) -> list[PairFiles]:
    """The corpora of one set, not read yet. `option` is the set's config path (``data.train``), for messages.

    Raises:
        UserError: what is given fits no format, files are missing, or the two sides differ in their number.
    """
    given = [name for name in ("source", "target", "file") if getattr(files, name) is not None]
    if given not in (["source", "target"], ["file"]):
        has = f"has {' and '.join(given)}" if given else "has none of them"
        raise UserError(f"{option} needs source and target (parallel text) or file (TSV, JSON lines); it {has}")
    if (reading.format == "parallel") != (given != ["file"]) and reading.format != "auto":
        raise UserError(f"data.format={reading.format} does not go with {option}.{given[0]}; leave it out")
    found = {name: resolve(getattr(files, name), reading.folder, f"{option}.{name}") for name in given}
    if given == ["file"]:
        return [PairFiles(tuple(paths), (), reading) for paths in found["file"]]
    sources, targets = found["source"], found["target"]
    if len(sources) != len(targets):
        raise UserError(f"{option}: {len(sources)} sources and {len(targets)} targets; give one for one")
    for left, right in zip(sources, targets, strict=True):
        _refuse_what_does_not_belong_together(left, right, option)
    return [PairFiles(tuple(left), tuple(right), reading) for left, right in zip(sources, targets, strict=True)]


def _refuse_what_does_not_belong_together(sources: list[Path], targets: list[Path], option: str) -> None:
    """Several files on a side meet in the order of their names, so the numbers in these must agree."""
    if len(sources) != len(targets):
        raise UserError(
            f"{option}: {len(sources)} source files ({sources[0].name}, ...) meet {len(targets)} target files "
            f"({targets[0].name}, ...); they must be as many"
        )
    for source, target in zip(sources, targets, strict=True):
        if source == target:
            raise UserError(
                f"{option}: {source} is both source and target; for a file with both sides use {option}.file"
            )
        if len(sources) > 1 and _numbers(source) != _numbers(target):
            raise UserError(
                f"{option}: in the order of their names {source.name} meets {target.name}; list them instead"
            )


def _numbers(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", without_compression(path).stem)]


def _format(path: Path, first: Block, reading: Reading) -> str:
    if reading.format in READERS:
        return reading.format
    if known := FORMATS.get(without_compression(path).suffix):
        return known
    line = next((text for text in first.texts if text and not text.isspace()), "")
    if line.startswith(("{", "[")):
        return "jsonl"
    if "\t" in line:
        return "tsv"
    hint = "; comma-separated files are not read: write it with tabs" if path.suffix == ".csv" else ""
    raise UserError(f"{path} is neither tab-separated nor JSON lines by its first line; pass data.format{hint}")
