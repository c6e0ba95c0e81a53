"""Tasks on random letter strings, as in Kazemnejad et al. (2023, arXiv:2305.19466) and Ontanon et al. (2022,
arXiv:2108.04378).

Every length has equally many examples. Evaluation strings are drawn first and never occur in training: with lengths
from 1 to 10 a fifth of a naive i.i.d. test would. Where so few strings exist that this would leave none to train on
(26 of length 1), each evaluation set gets an eighth of them.
"""

from __future__ import annotations

import random
import string

from relformer.data.task import Example, LengthRange, Task
from relformer.errors import OptionError

SETS = ("val_iid", "test_iid", "val_longer", "test_longer")
Letters = tuple[str, ...]


class LetterTask(Task):
    """Source: letters. Target: `transform` of them.

    Options:
        examples: training pairs, spread evenly over the lengths.
        min_length, max_length: lengths in training and in the i.i.d. sets.
        val, test: lengths of `val_longer` and `test_longer`.
        examples_per_length: in each evaluation set.
        letters: size of the alphabet.
    """

    def __init__(
        self,
        seed: int,
        *,
        examples: int = 20000,
        min_length: int = 1,
        max_length: int = 10,
        val: LengthRange = LengthRange(11, 12),  # noqa: B008  never mutated
        test: LengthRange = LengthRange(13, 20),  # noqa: B008
        examples_per_length: int = 500,
        letters: int = 26,
    ) -> None:
        if not 2 <= letters <= 26:
            raise OptionError("letters", letters, "must be from 2 to 26")
        if not 1 <= min_length <= max_length:
            raise OptionError("min_length", min_length, f"must be from 1 to data.max_length={max_length}")
        if letters**min_length < 8:
            raise OptionError(
                "min_length", min_length, f"leaves {letters**min_length} strings, fewer than 8, to share out"
            )
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
        self.source_tokens = self.target_tokens = tuple(string.ascii_lowercase[:letters])
        self.seed, self.examples, self.per_length = seed, examples, examples_per_length
        self.trained = range(min_length, max_length + 1)
        self.longer = {"val_longer": _range(val, max_length), "test_longer": _range(test, max_length)}

    def transform(self, letters: Letters) -> Letters:
        raise NotImplementedError

    def sets(self) -> dict[str, list[Example]]:
        held_out: dict[str, list[Example]] = {name: [] for name in SETS}
        used: dict[int, set[Letters]] = {}
        for name in SETS:
            for length in self.longer.get(name, self.trained):
                taken = used.setdefault(length, set())
                rng = random.Random(f"{self.seed}/{name}/{length}")
                size = min(self.per_length, len(self.source_tokens) ** length // 8)
                held_out[name] += [self.pair(self.draw(rng, length, taken, distinct=True)) for _ in range(size)]
        train = []
        for length in self.trained:
            rng = random.Random(f"{self.seed}/train/{length}")
            share = self.examples // len(self.trained) + (
                length - self.trained.start < self.examples % len(self.trained)
            )
            train += [self.pair(self.draw(rng, length, used[length], distinct=False)) for _ in range(share)]
        return {
            "train": train,
            **{name: held_out[name] for name in ("val_iid", "val_longer", "test_iid", "test_longer")},
        }

    def draw(self, rng: random.Random, length: int, taken: set[Letters], distinct: bool) -> Letters:
        """A string that is not taken; `distinct` takes it."""
        while (letters := tuple(rng.choices(self.source_tokens, k=length))) in taken:
            pass
        if distinct:
            taken.add(letters)
        return letters

    def pair(self, letters: Letters) -> Example:
        return letters, self.transform(letters)


def _range(span: LengthRange, trained: int) -> range:
    return range(span.min_length or trained + 1, (span.max_length or trained) + 1)
