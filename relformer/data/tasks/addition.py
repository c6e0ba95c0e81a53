"""Addition of decimal numbers, highest digit first.

    9 5 + 7 -> 1 0 2
    0 0 9 5 + 0 0 0 7 -> 0 1 0 2        padded
    # # 9 5 + # # - 7 -> # # 8 8        padded, where numbers can be negative

Ontanon et al. (2022, arXiv:2108.04378) train on two numbers of 1-8 digits, padded to 12 (``pad=12``; they write
``[SEP]`` for the plus), and test on 9-10; Kazemnejad et al. (2023, arXiv:2305.19466) do not pad and test on 9-16.
Length: digits of the longer number, with all numbers of digits up to it equally likely for the other, as in
Kazemnejad's grid; or, with ``digits=apart``, of the first number, and the second has any of the set's lengths, as
Ontanon et al. draw them. They also let numbers begin with zeros, so that a few of their longer sums are none.

A sum has as many digits as its length or one more, and may have fewer where numbers are negative, so the lengths of
targets are not equally frequent. With padding all are the same: then compare sets, not lengths.
"""

import random
import string
from typing import Literal

from relformer.data.task import Example, LengthRange
from relformer.data.tasks.by_length import LengthTask, Tokens
from relformer.errors import OptionError
from relformer.registry import tasks


@tasks.register("addition", describes="two decimal numbers to their sum")
class Addition(LengthTask):
    """Source: two numbers. Target: their sum.

    Options:
        pad: tokens that each number and the sum are filled up to on the left, with zeros, or with # where numbers can
            be negative; 0 for no padding.
        negative: share of the numbers that are negative; the paper uses 0.25.
        reverse_digits: lowest digit first, in the numbers and in the sum, signs and padding last.
        digits: whose are counted: those of the longer number, or those of the first, where both are drawn apart.
        The others are `LengthTask`'s.
    """

    def __init__(
        self,
        seed: int,
        *,
        examples: int = 20000,
        min_length: int = 1,
        max_length: int = 8,
        val: LengthRange = LengthRange(9, 9),  # noqa: B008  never mutated
        test: LengthRange = LengthRange(10, 11),  # noqa: B008
        examples_per_length: int = 500,
        pad: int = 0,
        negative: float = 0.0,
        reverse_digits: bool = False,
        digits: Literal["longer", "apart"] = "longer",
    ) -> None:
        self.digits = digits
        super().__init__(
            seed,
            examples=examples,
            min_length=min_length,
            max_length=max_length,
            val=val,
            test=test,
            examples_per_length=examples_per_length,
        )
        if not 0 <= negative <= 1:
            raise OptionError("negative", negative, "must be from 0 to 1; the paper uses 0.25")
        least = self.longest + 1 + (negative > 0)
        if pad and pad < least:
            rule = f"must be at least {least} for sums of numbers of {self.longest} digits, or 0 for no padding"
            raise OptionError("pad", pad, rule)
        self.pad, self.negative, self.reverse_digits = pad, negative, reverse_digits
        self.filling = "#" if negative else "0"
        marks = [*("-" if negative else ""), *("#" if negative and pad else "")]
        self.source_tokens = self.target_tokens = (*string.digits, "+", *marks)

    def count(self, length: int) -> int:
        """Pairs of numbers up to that length, less those up to the length below; at least that many where the second
        number has any length."""
        if self.digits == "apart":
            return (10**length - (10 ** (length - 1) if length > 1 else 0)) * 10
        return (10**length) ** 2 - (10 ** (length - 1) if length > 1 else 0) ** 2

    def example(self, rng: random.Random, length: int) -> Example:
        digits = rng.choice(
            [(length, other) for other in range(1, length + 1)] + [(i, length) for i in range(1, length)]
        )
        return self.sum_of(rng, *digits)

    def example_among(self, rng: random.Random, length: int, lengths: range) -> Example:
        return self.example(rng, length) if self.digits == "longer" else self.sum_of(rng, length, rng.choice(lengths))

    def sum_of(self, rng: random.Random, *digits: int) -> Example:
        a, b = (self.number(rng, each) for each in digits)
        return (*self.written(a), "+", *self.written(b)), self.written(a + b)

    def number(self, rng: random.Random, digits: int) -> int:
        number = rng.randrange(10 ** (digits - 1) if digits > 1 else 0, 10**digits)
        return -number if self.negative and rng.random() < self.negative else number

    def written(self, number: int) -> Tokens:
        text = str(number).rjust(self.pad, self.filling)
        return tuple(text[::-1] if self.reverse_digits else text)
