"""Where two files of unequal length part: for the message about it only, and at the cost of reading them again."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from relformer.data.text.lines import ODD, read_blocks
from relformer.data.text.notes import Notes
from relformer.data.text.opening import readable_once

NEARBY = 5
CLEARLY = 0.8
"""A split is believed where the lengths fit this much better than on the wrong side of it."""


def suspicion(source: Path, target: Path, charset: str) -> str:
    """The end of a sentence: what looks wrong first. Empty where a file can't be read twice or nothing stands out.

    Two sides of a pair have lengths of a steady ratio. The split is the line that, with the shorter file in step
    before it and as many lines behind after it as are missing, makes the ratios steadiest.
    """
    if readable_once(source) or readable_once(target):
        return ""
    lengths, odd = zip(*(_looked_through(path, charset) for path in (source, target)), strict=True)
    short, long = sorted((lengths[0], lengths[1]), key=len)
    longer, missing = target if len(lengths[1]) > len(lengths[0]) else source, len(long) - len(short)
    split = _split(short, long)
    oddities = {number: f"{path.name}:{number} {what}" for number, path, what in _one_sided(odd, (source, target))}
    nearest = min(oddities, key=lambda number: abs(number - 1 - (split or 0)), default=0)
    if nearest and split is not None and abs(nearest - 1 - split) <= NEARBY:
        return f"; {oddities[nearest]}, and the lengths of the sides stop matching there"
    if split == len(short):
        return f"; the last {missing:,} of {longer.name} look like the surplus"
    if split is not None:
        return f"; the lengths of the sides stop matching at {longer.name}:{split + 1}"
    return f"; the first line that looks odd is {oddities[min(oddities)]}" if oddities else ""


def _looked_through(path: Path, charset: str) -> tuple[np.ndarray, dict[int, str]]:
    """The length of each line, and what is odd about some by number."""
    lengths: list[int] = []
    odd: dict[int, str] = {}
    for block in read_blocks(path, charset, Notes()):
        lengths += map(len, block.texts)
        for number, text in enumerate(block.texts, block.first):
            if not text or text.isspace():
                odd[number] = "is empty"
            elif not text.isprintable() and (found := [name for character, name in ODD.items() if character in text]):
                odd[number] = f"holds {found[0]}"
    return np.array(lengths, dtype=np.float64), odd


def _one_sided(odd: tuple[dict[int, str], ...], paths: tuple[Path, Path]) -> list[tuple[int, Path, str]]:
    """The odd lines whose partner is not odd in the same way."""
    pairs = ((odd[0], odd[1], paths[0]), (odd[1], odd[0], paths[1]))
    return [(n, path, what) for one, other, path in pairs for n, what in one.items() if other.get(n) != what]


def _split(short: np.ndarray, long: np.ndarray) -> int | None:
    """The index of the first line out of step, the shorter length where none is; None where lengths don't tell."""
    if not len(short):
        return None
    shared, missing = len(short), len(long) - len(short)
    ratios = np.log1p(short) - np.log1p(long[:shared])
    centre = np.median(ratios)
    in_step = np.abs(ratios - centre)
    behind = np.abs(np.log1p(short) - np.log1p(long[missing:]) - centre)
    costs = np.concatenate([[0], np.cumsum(in_step)]) + np.concatenate([np.cumsum(behind[::-1])[::-1], [0]])
    split = int(np.argmin(costs))
    chance = costs[split] / shared * np.log1p(shared)  # what a few lines gain by fitting the wrong partner better
    end = 0 if costs[0] < costs[-1] else shared
    split = end if costs[end] <= costs[split] + chance else split
    before = split == 0 or in_step[:split].mean() < CLEARLY * behind[:split].mean()
    after = split == shared or behind[split:].mean() < CLEARLY * in_step[split:].mean()
    return split if before and after else None
