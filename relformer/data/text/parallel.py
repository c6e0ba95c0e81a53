"""Parallel text: line n of one file belongs to line n of the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from relformer.data.text.alignment import suspicion
from relformer.data.text.lines import Block, read_blocks, reject
from relformer.data.text.notes import Notes
from relformer.data.text.reading import Pair, Reading
from relformer.errors import UserError

NOTHING = Block(1, [], {})


def read_parallel(source: Path, target: Path, reading: Reading, notes: Notes) -> Iterator[Pair]:
    """The pairs of two files, those with a blank side left out and counted.

    Raises:
        UserError: unequal numbers of lines, whatever `on_bad` says; a bad line where it says ``stop``.
    """
    sources, targets = (read_blocks(path, reading.charset, notes) for path in (source, target))
    left, right = next(sources, NOTHING), next(targets, NOTHING)
    while left.texts and right.texts:
        count = min(len(left.texts), len(right.texts))
        faulty = {**left.faults, **right.faults}
        for number, pair in enumerate(zip(left.texts, right.texts, strict=False), left.first):
            if number in faulty:
                path, faults = (source, left.faults) if number in left.faults else (target, right.faults)
                reject(faults[number], path, number, "pair", reading.on_bad, notes)
            elif not blank_side(*pair, source, number, notes):
                yield Pair(source, number, *pair)
        notes.total += count
        left, right = (
            block.after(count)
            if len(block.texts) > count
            else next(blocks, NOTHING._replace(first=block.first + count))
            for block, blocks in ((left, sources), (right, targets))
        )
    if left.texts or right.texts:
        sizes = [
            block.first - 1 + len(block.texts) + sum(len(more.texts) for more in blocks)
            for block, blocks in ((left, sources), (right, targets))
        ]
        raise UserError(
            f"{source} has {sizes[0]:,} lines and {target} has {sizes[1]:,}; "
            f"they must have one for one{suspicion(source, target, reading.charset)}"
        )


def blank_side(source: str, target: str, path: Path, number: int, notes: Notes) -> bool:
    """Whether a side has nothing but white space, which is counted: one side alone louder, as it may mean trouble."""
    if source and target and not source.isspace() and not target.isspace():
        return False
    where = f"{path.name}:{number}"
    blank = [not side or side.isspace() for side in (source, target)]
    if all(blank):
        notes.count("pair with both sides empty left out", where, dropped=True)
    else:
        side = "source" if blank[0] else "target"
        notes.count(
            f"pair with an empty {side} left out although the other side has text: check the files", where, True
        )
    return True
