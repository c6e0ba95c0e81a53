"""Sorting, as in Kazemnejad et al. (2023, arXiv:2305.19466).

    d a c a -> a a c d                                  letters, in the order of the vocabulary
    4 2 , 1 0 7 , 9 0 -> 4 2 , 9 0 , 1 0 7              with `numbers`: from 10 to 9999, digit by digit

Length: letters or numbers. A target of numbers has more tokens than its length, not equally many at each. ``letters=5
min_length=2`` is ``bucket_sort`` of Deletang et al. (2022, arXiv:2207.02098). The paper has 50 single tokens and reads
numbers through T5's subwords, where the digits here are a token each with a comma between numbers.
"""

import random
import string

from relformer.data.task import Example, LengthRange
from relformer.data.tasks.by_length import Tokens
from relformer.data.tasks.letters import LetterTask
from relformer.errors import OptionError
from relformer.registry import tasks

NUMBERS = range(10, 10_000)


@tasks.register("sort", describes="letters or numbers to the same in ascending order")
class Sort(LetterTask):
    """Source: letters or numbers. Target: the same in ascending order, repetitions kept.

    Options:
        numbers: numbers of two to four digits in place of letters; the others are `LetterTask`'s.
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
        numbers: bool = False,
    ) -> None:
        if numbers and letters != 26:
            raise OptionError("letters", letters, "is for data.numbers=false only; leave it out with numbers")
        self.numbers = numbers
        super().__init__(
            seed,
            examples=examples,
            min_length=min_length,
            max_length=max_length,
            val=val,
            test=test,
            examples_per_length=examples_per_length,
            letters=letters,
        )
        if numbers:
            self.source_tokens = self.target_tokens = (*string.digits, ",")

    def transform(self, letters: Tokens) -> Tokens:
        return tuple(sorted(letters))

    def count(self, length: int) -> int:
        return len(NUMBERS) ** length if self.numbers else super().count(length)

    def example(self, rng: random.Random, length: int) -> Example:
        if not self.numbers:
            return super().example(rng, length)
        numbers = rng.choices(NUMBERS, k=length)
        return _listed(numbers), _listed(sorted(numbers))


def _listed(numbers: list[int]) -> Tokens:
    return tuple(",".join(map(str, numbers)))
