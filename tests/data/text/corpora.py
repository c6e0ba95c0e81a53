"""Small corpora written by tests, and reading them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from relformer.data.text.notes import Notes
from relformer.data.text.pairs import Files, Pair, Reading, open_pairs

Sides = list[tuple[str, str]]


def write(folder: Path, **files: bytes | str) -> None:
    """Files by name, with ``_`` for the dot: ``train_en=b"..."``."""
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        (folder / name.replace("_", ".")).write_bytes(data)


def read(folder: Path, files: Files, notes: Notes | None = None, **options: Any) -> list[Pair]:
    """All pairs of a set with one corpus."""
    (corpus,) = open_pairs(files, Reading(folder=folder, **options), "data.train")
    return list(corpus.read(notes or Notes()))


def sides(pairs: list[Pair]) -> Sides:
    return [(pair.source, pair.target) for pair in pairs]


def parallel(
    folder: Path, source: bytes | str, target: bytes | str, notes: Notes | None = None, **options: Any
) -> list[Pair]:
    write(folder, train_en=source, train_de=target)
    return read(folder, Files("train.en", "train.de"), notes, **options)


def tsv(folder: Path, content: bytes | str, notes: Notes | None = None, **options: Any) -> list[Pair]:
    write(folder, train_tsv=content)
    return read(folder, Files(file="train.tsv"), notes, **options)


def jsonl(folder: Path, content: bytes | str, notes: Notes | None = None, **options: Any) -> list[Pair]:
    write(folder, train_jsonl=content)
    return read(folder, Files(file="train.jsonl"), notes, **options)
