"""Solving an equation modulo 5 for x (Deletang et al. 2022, arXiv:2207.02098).

    ( ( 2 + x ) - 1 ) = 3 -> 2

An expression of sums and differences in brackets, in which x stands for one digit; without products, so that the
solution is the only one. Each digit is as likely to be the unknown; in the published code those behind a bracket or
an operator are likelier. Lengths count all tokens and begin at 7, where the expression has five.
"""

import random

from relformer.data.task import Example
from relformer.data.tasks.by_length import SourceLengthTask
from relformer.data.tasks.expressions import DIGITS, count_expressions, expression
from relformer.registry import tasks

OPERATORS = "+-"
RIGHT_SIDE = 2
"""Tokens of ``= 3``."""


@tasks.register("solve_equation", describes="equations in brackets to the x that solves them modulo 5")
class SolveEquation(SourceLengthTask):
    source_tokens = (*DIGITS, *OPERATORS, "(", ")", "x", "=")
    target_tokens = DIGITS

    def count(self, length: int) -> int:
        return count_expressions(length - RIGHT_SIDE, len(OPERATORS))

    def example(self, rng: random.Random, length: int) -> Example:
        left, value = expression(rng, length - RIGHT_SIDE, OPERATORS)
        unknown = rng.choice([place for place, token in enumerate(left) if token in DIGITS])
        return (*left[:unknown], "x", *left[unknown + 1 :], "=", str(value)), (left[unknown],)
