"""SCAN's commands and their actions (Lake & Baroni 2018, arXiv:1711.00350), generated from grammar and interpretation.

The grammar has no recursion, so the whole data set is finite: 34 verb phrases x 3 repetitions = 102 sentences, alone or
joined in pairs by ``and`` or ``after``: 102 + 2 * 102^2 = 20,910 commands of 1 to 9 words and 1 to 48 actions.
No command has 23, 29, 31, 34, 35, 37 to 39 or 41 to 47 actions. The actions are spelt ``I_JUMP``, ``I_TURN_LEFT`` as in
the official files; the ``JUMP``, ``LTURN`` of the paper occur in no file.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from relformer.data.task import Example

PRIMITIVES = ("walk", "look", "run", "jump")
DIRECTIONS = ("left", "right")
WORDS = (*PRIMITIVES, "turn", *DIRECTIONS, "opposite", "around", "twice", "thrice", "and", "after")
ACTIONS = ("I_WALK", "I_LOOK", "I_RUN", "I_JUMP", "I_TURN_LEFT", "I_TURN_RIGHT")


@cache
def pairs() -> tuple[Example, ...]:
    """All 20,910 (command, actions) pairs, each once, in a fixed order: single sentences, then ``and``, then ``after``.

    The official files are in a random order, so compare with them as multisets.
    """
    sentences = tuple(_sentences())
    both = [(first, second) for first in sentences for second in sentences]
    joined_and = (((*c1, "and", *c2), a1 + a2) for (c1, a1), (c2, a2) in both)
    joined_after = (((*c1, "after", *c2), a2 + a1) for (c1, a1), (c2, a2) in both)
    return (*sentences, *joined_and, *joined_after)


def _sentences() -> Iterator[Example]:
    """S -> V | V twice | V thrice."""
    for command, actions in _verb_phrases():
        yield command, actions
        yield (*command, "twice"), actions * 2
        yield (*command, "thrice"), actions * 3


def _verb_phrases() -> Iterator[Example]:
    """V -> U | D | D[1] opposite D[2] | D[1] around D[2], where D is a verb and a direction.

    ``turn`` is a verb without an action of its own and never stands without a direction. ``around`` repeats turn and
    action four times, ``opposite`` turns twice and acts once.
    """
    for verb in (*PRIMITIVES, "turn"):
        act = () if verb == "turn" else (f"I_{verb.upper()}",)
        if act:
            yield (verb,), act
        for direction in DIRECTIONS:
            turn = (f"I_TURN_{direction.upper()}",)
            yield (verb, direction), turn + act
            yield (verb, "opposite", direction), turn * 2 + act
            yield (verb, "around", direction), (turn + act) * 4
