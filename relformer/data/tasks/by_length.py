"""Tasks generated length by length: the sets that let a model be tested beyond the lengths it was trained on.

Every length has equally many examples. Evaluation examples are drawn first and their sources never occur in training:
with letters of lengths from 1 to 10 a fifth of a naive i.i.d. test would. Where so few sources exist that this would
leave none to train on (26 of length 1), each evaluation set gets an eighth of them.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from typing import ClassVar

from relformer.data.encoded import Side
from relformer.data.task import Example, LengthRange, Task
from relformer.errors import OptionError

SETS = ("val_iid", "test_iid", "val_longer", "test_longer")
LONGEST = 100_000
MOST = 10**9
"""Tokens of all sets together, which are held in memory."""
Tokens = tuple[str, ...]


class LengthTask(Task):
    """Examples of a given length. What a length counts (letters, digits, pairs) is each task's to say.

    A subclass names its tokens before it calls this constructor.

    Options:
        examples: training examples, spread evenly over the lengths.
        min_length, max_length: lengths in training and in the i.i.d. sets.
        val, test: lengths of `val_longer` and `test_longer`.
        examples_per_length: in each evaluation set.
    """

    def __init__(
        self,
        seed: int,
        *,
        examples: int,
        min_length: int,
        max_length: int,
        val: LengthRange,
        test: LengthRange,
        examples_per_length: int,
    ) -> None:
        if not 1 <= min_length <= max_length:
            raise OptionError("min_length", min_length, f"must be from 1 to data.max_length={max_length}")
        if max_length > LONGEST:
            raise OptionError("max_length", max_length, f"must be at most {LONGEST:,}")
        if self.count(min_length) < 8:
            rule = f"leaves {self.count(min_length)} sources, fewer than 8, to share out; set a greater one"
            raise OptionError("min_length", min_length, rule)
        lengths = max_length - min_length + 1
        if examples < lengths:
            raise OptionError("examples", examples, f"must be at least {lengths}: one for each length")
        if examples_per_length < 1:
            raise OptionError("examples_per_length", examples_per_length, "must be at least 1")
        for name, span in (("val", val), ("test", test)):
            first, last = span.min_length or max_length + 1, span.max_length or 0
            if first <= max_length:
                raise OptionError(f"{name}.min_length", first, f"must exceed the trained data.max_length={max_length}")
            if last < first:
                raise OptionError(
                    f"{name}.max_length", span.max_length, f"must be at least data.{name}.min_length={first}"
                )
            if last > LONGEST:
                raise OptionError(f"{name}.max_length", last, f"must be at most {LONGEST:,}")
        self.seed, self.examples, self.per_length = seed, examples, examples_per_length
        self.trained = range(min_length, max_length + 1)
        self.longer = {"val_longer": _range(val, max_length), "test_longer": _range(test, max_length)}
        evaluated = [self.trained, self.trained, *self.longer.values()]
        of_evaluation = examples_per_length * sum((each[0] + each[-1]) * len(each) // 2 for each in evaluated)
        if (tokens := examples * max_length + of_evaluation) > MOST:
            name, value = (
                ("examples", examples) if 2 * of_evaluation < tokens else ("examples_per_length", self.per_length)
            )
            raise OptionError(
                name, value, f"makes some {tokens:.2g} tokens in all; {MOST:.0g} are the most that are held"
            )

    @property
    def longest(self) -> int:
        """The greatest length in any set."""
        return max(lengths[-1] for lengths in self.longer.values())

    @abstractmethod
    def count(self, length: int) -> int:
        """How many different sources of a length there are, at least. Called before the constructor has ended."""

    @abstractmethod
    def example(self, rng: random.Random, length: int) -> Example:
        """One example, drawn from `rng` alone. Examples of different lengths must have different sources."""

    def example_among(self, rng: random.Random, length: int, lengths: range) -> Example:
        """One example of a set that has these lengths."""
        return self.example(rng, length)

    def sets(self) -> dict[str, list[Example]]:
        held_out: dict[str, list[Example]] = {name: [] for name in SETS}
        used: dict[int, set[Tokens]] = {}
        for name in SETS:
            lengths = self.longer.get(name, self.trained)
            for length in lengths:
                taken = used.setdefault(length, set())
                rng = random.Random(f"{self.seed}/{name}/{length}")
                size = min(self.per_length, self.count(length) // 8)
                held_out[name] += [self.draw(rng, length, lengths, taken, distinct=True) for _ in range(size)]
        train = []
        for length in self.trained:
            rng = random.Random(f"{self.seed}/train/{length}")
            share = self.examples // len(self.trained) + (
                length - self.trained.start < self.examples % len(self.trained)
            )
            train += [self.draw(rng, length, self.trained, used[length], distinct=False) for _ in range(share)]
        return {
            "train": train,
            **{name: held_out[name] for name in ("val_iid", "val_longer", "test_iid", "test_longer")},
        }

    def draw(self, rng: random.Random, length: int, lengths: range, taken: set[Tokens], distinct: bool) -> Example:
        """An example whose source is not taken; `distinct` takes it."""
        while (example := self.example_among(rng, length, lengths))[0] in taken:
            pass
        if distinct:
            taken.add(example[0])
        return example


class SourceLengthTask(LengthTask):
    """A task whose length is the number of source tokens, as in Deletang et al. (2022, arXiv:2207.02098) and Ruoss et
    al. (2023, arXiv:2305.16843).

    They train on lengths 1-40 and test on 41-500, generating anew for each batch. Here the sets are fixed and trained
    lengths, by default, end at 20. They begin at 5, since of the shortest too few sources exist to hold many out.
    """

    length_side: ClassVar[Side] = "source"

    def __init__(
        self,
        seed: int,
        *,
        examples: int = 20000,
        min_length: int = 5,
        max_length: int = 20,
        val: LengthRange = LengthRange(21, 24),  # noqa: B008  never mutated
        test: LengthRange = LengthRange(25, 40),  # noqa: B008
        examples_per_length: int = 500,
    ) -> None:
        super().__init__(
            seed,
            examples=examples,
            min_length=min_length,
            max_length=max_length,
            val=val,
            test=test,
            examples_per_length=examples_per_length,
        )


def _range(span: LengthRange, trained: int) -> range:
    return range(span.min_length or trained + 1, (span.max_length or trained) + 1)
