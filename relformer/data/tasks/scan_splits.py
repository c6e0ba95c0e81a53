"""SCAN's train/test splits that a rule defines.

``length`` and ``addprim`` are of Lake & Baroni 2018 (arXiv:1711.00350), ``template`` and ``filler`` of Loula et al.
2018 (arXiv:1807.07545). Two surprises of the official files are kept. The ``addprim`` splits train on the bare
primitive many times, a tenth of the training set, so removing duplicates breaks them. The ``template`` and ``filler``
splits leave commands with ``turn`` in the tested frame out of both sides; ``filler_numN`` trains on N fillers only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from relformer.data.task import Example
from relformer.data.tasks.scan_grammar import PRIMITIVES, pairs
from relformer.errors import OptionError

RuleSplit = Literal[
    "length",
    "addprim_jump",
    "addprim_turn_left",
    "template_around_right",
    "template_opposite_right",
    "template_right",
    "template_jump_around_right",
    "filler_num0",
    "filler_num1",
    "filler_num2",
    "filler_num3",
]


@dataclass(frozen=True)
class Frame:
    """Phrases that decide a command's side, looked up in this order: ``neither``, ``test``, ``untrained``; else train.

    ``untrained`` phrases keep a command out of the training set without making it a test.
    """

    test: tuple[str, ...]
    neither: tuple[str, ...]
    untrained: tuple[str, ...] = ()


PRIMITIVE_PHRASES = {"addprim_jump": "jump", "addprim_turn_left": "turn left"}

FRAMES = {
    f"template_{frame.replace(' ', '_')}": Frame(tuple(f"{verb} {frame}" for verb in PRIMITIVES), (f"turn {frame}",))
    for frame in ("around right", "opposite right", "right")
}
FRAMES["template_jump_around_right"] = Frame(("jump around right",), ("turn around right",))
FILLERS = ("look around right", "walk around right", "run around right")
FRAMES |= {
    f"filler_num{n}": Frame(("jump around right",), ("turn around right",), untrained=FILLERS[n:])
    for n in range(len(FILLERS) + 1)
}


def split(name: str, cutoff: int) -> tuple[list[Example], list[Example]]:
    """The official train and test set of a split, in the grammar's order, repetitions of the train set at its end.

    ``cutoff`` matters to ``length`` only: at most so many actions to train, more to test. The official value is 22;
    Newman et al. 2020 (arXiv:2010.07174) and Csordás et al. 2021 (arXiv:2108.12284) use up to 40.

    Raises:
        OptionError: no such split. ``simple`` isn't one: it is random, not a rule.
    """
    if name == "length":
        return [p for p in pairs() if len(p[1]) <= cutoff], [p for p in pairs() if len(p[1]) > cutoff]
    if name in PRIMITIVE_PHRASES:
        return _add_primitive(PRIMITIVE_PHRASES[name])
    if name in FRAMES:
        return _new_frame(FRAMES[name])
    raise OptionError("split", name, f"is not one of {', '.join(('length', *PRIMITIVE_PHRASES, *FRAMES))}")


def _add_primitive(phrase: str) -> tuple[list[Example], list[Example]]:
    """Train: commands without the phrase, and the phrase alone, a tenth of the whole. Test: all others with it."""
    without = [pair for pair in pairs() if not _holds(pair, [phrase])]
    bare = tuple(phrase.split())
    (primitive,) = (pair for pair in pairs() if pair[0] == bare)
    test = [pair for pair in pairs() if _holds(pair, [phrase]) and pair != primitive]
    return without + [primitive] * (len(without) // 9), test


def _new_frame(frame: Frame) -> tuple[list[Example], list[Example]]:
    kept = [pair for pair in pairs() if not _holds(pair, frame.neither)]
    test = [pair for pair in kept if _holds(pair, frame.test)]
    train = [pair for pair in kept if not _holds(pair, frame.test + frame.untrained)]
    return train, test


def _holds(pair: Example, phrases: Iterable[str]) -> bool:
    """Whether the command has one of the phrases as consecutive whole words."""
    command = f" {' '.join(pair[0])} "
    return any(f" {phrase} " in command for phrase in phrases)
