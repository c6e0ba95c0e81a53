"""Binary numbers, lowest bit first, joined by an operator, as Deletang et al. (2022, arXiv:2207.02098) draw them.

A source of L tokens is two positive numbers with the operator between; the L - 1 bits are shared out at random, and a
number may end with zeros, which count nothing. The target has no such zeros. The paper pads it to a fixed length behind
a token that ends it, which is EOS here. It writes 2 for the operator.
"""

import random
from abc import abstractmethod

from relformer.data.task import Example
from relformer.data.tasks.by_length import SourceLengthTask, Tokens


class BinaryOperation(SourceLengthTask):
    """Source: two numbers. Target: `result` of them. Length: tokens of the source."""

    operator: str

    def __init_subclass__(cls) -> None:
        cls.source_tokens = cls.target_tokens = ("0", "1", cls.operator)

    @abstractmethod
    def result(self, a: int, b: int) -> int:
        """A positive number."""

    def count(self, length: int) -> int:
        return sum((2**bits - 1) * (2 ** (length - 1 - bits) - 1) for bits in range(1, length - 1))

    def example(self, rng: random.Random, length: int) -> Example:
        bits = rng.randint(1, length - 2)
        a, b = rng.randint(1, 2**bits - 1), rng.randint(1, 2 ** (length - 1 - bits) - 1)
        source = (*lowest_first(a, bits), self.operator, *lowest_first(b, length - 1 - bits))
        return source, lowest_first(self.result(a, b))


def lowest_first(number: int, bits: int = 0) -> Tokens:
    """A number's bits, filled up with zeros to so many."""
    return tuple(f"{number:0{bits}b}"[::-1])
