"""SCAN (Lake & Baroni 2018, arXiv:1711.00350): commands such as ``jump twice and walk left`` to action sequences.

The official files have a train and a test set only, and the test set is the hard one. So examples like the trained
ones are held out as well (as Csordás et al. 2021, arXiv:2108.12284 do for ``length``), and a tenth of the hard set
serves for validation. The training set is thus smaller than the official one by ``test_iid`` and ``val_iid``.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import Literal

from relformer.data.task import Example, LengthRange, Task
from relformer.data.tasks.scan_grammar import ACTIONS, WORDS, pairs
from relformer.data.tasks.scan_splits import RuleSplit
from relformer.data.tasks.scan_splits import split as rule_split
from relformer.errors import OptionError
from relformer.registry import tasks

SplitName = Literal[RuleSplit, "simple"]
SIMPLE_TEST_SHARE = 0.2
LONGEST = 48


@tasks.register("scan", describes="commands to action sequences, all rule-defined splits")
class Scan(Task):
    """One split of SCAN.

    Options:
        split: ``length`` by number of actions, ``simple`` a random partition, the others new combinations of words.
        cutoff: ``length`` only: most actions in training; the official split has 22.
        test_share: share held out as ``test_iid``. ``simple`` holds out its official 20 % whatever this says.
        val_iid: number of examples held out as ``val_iid``.
        test: ``length`` only: the lengths kept in ``test_longer``.
    """

    source_tokens = WORDS
    target_tokens = ACTIONS

    def __init__(
        self,
        seed: int,
        *,
        split: SplitName = "length",
        cutoff: int = 26,
        test_share: float = 0.1,
        val_iid: int = 500,
        test: LengthRange = LengthRange(),  # noqa: B008  never mutated
    ) -> None:
        if not 1 <= cutoff < LONGEST:
            rule = (
                f"must be from 1 to {LONGEST - 1}: the longest target has {LONGEST} actions; the official split has 22"
            )
            raise OptionError("cutoff", cutoff, rule)
        if not 0 < test_share < 1:
            raise OptionError("test_share", test_share, "must lie between 0 and 1, both excluded; usual is 0.1")
        if split != "length" and test != LengthRange():
            raise OptionError("test", test, f"is for split=length only; leave it out with split={split}")
        train, beyond = (list(pairs()), []) if split == "simple" else rule_split(split, cutoff)
        share = SIMPLE_TEST_SHARE if split == "simple" else test_share
        train, val, test_iid = _hold_out(train, share, val_iid, f"scan/{split}/iid/{seed}")
        self._sets = {"train": train, "val_iid": val, "test_iid": test_iid}
        if beyond:
            kind = "longer" if split == "length" else "ood"
            beyond = _shuffled(beyond, f"scan/{split}/{kind}/{seed}")
            tenth = round(len(beyond) / 10)
            self._sets |= {f"val_{kind}": beyond[:tenth], f"test_{kind}": _of_lengths(beyond[tenth:], test)}

    def sets(self) -> dict[str, list[Example]]:
        """``train``, ``val_iid``, ``test_iid``; and ``val_longer``, ``test_longer`` or ``val_ood``, ``test_ood``.

        Evaluation sets are shuffled, ``train`` is in the grammar's order and, in the ``addprim`` splits, holds the bare
        primitive many times. ``simple`` has only the first three sets.
        """
        order = ("train", "val_iid", "val_longer", "val_ood", "test_iid", "test_longer", "test_ood")
        return {name: list(self._sets[name]) for name in order if name in self._sets}


def _hold_out(
    examples: list[Example], test_share: float, val_size: int, key: str
) -> tuple[list[Example], list[Example], list[Example]]:
    """Train, validation and test set from one distribution, the held-out ones drawn by ``key``.

    Only examples that occur once are held out: a repeated one would stay in the training set as well.

    Raises:
        OptionError: a held-out set or the training set would be empty.
    """
    occurrences = Counter(examples)
    once = _shuffled((e for e in examples if occurrences[e] == 1), key)
    test_size = round(test_share * len(once))
    room = len(once) - test_size - 1
    if test_size < 1 or room < 1:
        rule = f"makes {test_size} of {len(once)} examples test_iid; test_iid, val_iid and train need one each"
        raise OptionError("test_share", test_share, f"{rule}: use a share nearer 0.1, or a larger cutoff")
    if not 1 <= val_size <= room:
        rule = f"must be from 1 to {room}: {len(once)} can be held out, {test_size} are test_iid, train needs one"
        raise OptionError("val_iid", val_size, f"{rule}; choose a size in that range or another cutoff or test_share")
    test, val = once[:test_size], once[test_size : test_size + val_size]
    held_out = {*test, *val}
    return [e for e in examples if e not in held_out], val, test


def _of_lengths(examples: list[Example], lengths: LengthRange) -> list[Example]:
    """The examples whose target length lies in the range; an OptionError that lists the lengths where none does."""
    kept = [example for example in examples if lengths.holds(len(example[1]))]
    if not kept:
        present = ", ".join(map(str, sorted({len(target) for _, target in examples})))
        raise OptionError("test", lengths, f"leaves test_longer empty: choose from targets of {present} actions")
    return kept


def _shuffled(examples: Iterable[Example], key: str) -> list[Example]:
    shuffled = list(examples)
    random.Random(key).shuffle(shuffled)
    return shuffled
