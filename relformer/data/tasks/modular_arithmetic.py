"""Modular arithmetic without brackets (Deletang et al. 2022, arXiv:2207.02098): the value of an expression modulo 5.

    0 * 1 + 4 * 3 - 2 -> 0

Multiplication binds more strongly. Length: numbers of the expression, so that a source has twice as many tokens less
one; the paper counts tokens.
"""

import random

from relformer.data.task import Example
from relformer.data.tasks.by_length import SourceLengthTask
from relformer.data.tasks.expressions import DIGITS, MODULUS
from relformer.registry import tasks


@tasks.register("modular_arithmetic", describes="sums and products of digits to their value modulo 5")
class ModularArithmetic(SourceLengthTask):
    source_tokens = (*DIGITS, "+", "-", "*")
    target_tokens = DIGITS

    def count(self, length: int) -> int:
        return MODULUS**length * 3 ** (length - 1)

    def example(self, rng: random.Random, length: int) -> Example:
        total, term = 0, rng.randrange(MODULUS)
        source = [str(term)]
        for _ in range(length - 1):
            operator, number = rng.choice("+-*"), rng.randrange(MODULUS)
            source += [operator, str(number)]
            if operator == "*":
                term *= number
            else:
                total, term = total + term, number if operator == "+" else -number
        return tuple(source), (str((total + term) % MODULUS),)
