"""Tasks on random letter strings, as in Kazemnejad et al. (2023, arXiv:2305.19466) and Ontanon et al. (2022,
arXiv:2108.04378). Length: letters of the source."""

from __future__ import annotations

import random
import string
from abc import abstractmethod

from relformer.data.task import Example, LengthRange
from relformer.data.tasks.by_length import LengthTask, Tokens
from relformer.errors import OptionError

MOST_LETTERS = 1000


class LetterTask(LengthTask):
    """Source: letters. Target: `transform` of them.

    Options:
        letters: size of the alphabet, beyond 26 of tokens t000, t001, ...; the others are `LengthTask`'s.
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
        if not 2 <= letters <= MOST_LETTERS:
            raise OptionError("letters", letters, f"must be from 2 to {MOST_LETTERS:,}")
        alphabet = string.ascii_lowercase if letters <= 26 else [f"t{number:03}" for number in range(letters)]
        self.source_tokens = self.target_tokens = tuple(alphabet[:letters])
        self.letters = self.source_tokens
        super().__init__(
            seed,
            examples=examples,
            min_length=min_length,
            max_length=max_length,
            val=val,
            test=test,
            examples_per_length=examples_per_length,
        )

    @abstractmethod
    def transform(self, letters: Tokens) -> Tokens:
        """The target of a source."""

    def count(self, length: int) -> int:
        return len(self.letters) ** length

    def example(self, rng: random.Random, length: int) -> Example:
        letters = tuple(rng.choices(self.letters, k=length))
        return letters, self.transform(letters)
