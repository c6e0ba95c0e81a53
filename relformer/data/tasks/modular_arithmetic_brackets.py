"""Modular arithmetic with brackets (Deletang et al. 2022, arXiv:2207.02098): the value of an expression modulo 5.

    ( ( 2 * - 3 ) - 1 ) -> 3

Sums, differences and products, each in brackets of its own. Lengths begin at 5: each shorter one has five expressions.
"""

import random

from relformer.data.task import Example
from relformer.data.tasks.by_length import SourceLengthTask
from relformer.data.tasks.expressions import DIGITS, count_expressions, expression
from relformer.registry import tasks

OPERATORS = "+-*"


@tasks.register("modular_arithmetic_brackets", describes="expressions in brackets to their value modulo 5")
class ModularArithmeticBrackets(SourceLengthTask):
    source_tokens = (*DIGITS, *OPERATORS, "(", ")")
    target_tokens = DIGITS

    def count(self, length: int) -> int:
        return count_expressions(length, len(OPERATORS))

    def example(self, rng: random.Random, length: int) -> Example:
        source, value = expression(rng, length, OPERATORS)
        return source, (str(value),)
