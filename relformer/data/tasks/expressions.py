"""Expressions in brackets over the digits modulo 5, as Deletang et al. (2022, arXiv:2207.02098) draw them.

    1-4 tokens   d, -d, (d), (-d)
    5 or more    (left o right)        the tokens are shared out at random; o is one of the operators

Every expression is derived in one way, so derivations and expressions are equally many.
"""

import random
from functools import lru_cache

from relformer.data.tasks.by_length import Tokens

MODULUS = 5
DIGITS = tuple(map(str, range(MODULUS)))
BRACKETS = 3
"""Tokens around the two parts: the brackets and the operator."""


def expression(rng: random.Random, length: int, operators: str) -> tuple[Tokens, int]:
    """An expression of so many tokens, and its value modulo 5."""
    if length <= 4:
        number = rng.randrange(MODULUS)
        before, after = ("", "-", "(", "(-")[length - 1], ")" if length > 2 else ""
        return (*before, str(number), *after), -number % MODULUS if "-" in before else number
    split = rng.randint(1, length - BRACKETS - 1)
    left, a = expression(rng, split, operators)
    right, b = expression(rng, length - BRACKETS - split, operators)
    operator = rng.choice(operators)
    value = {"+": a + b, "-": a - b, "*": a * b}[operator]
    return ("(", *left, operator, *right, ")"), value % MODULUS


@lru_cache
def count_expressions(length: int, operators: int) -> int:
    """How many expressions of so many tokens there are."""
    if length <= 4:
        return MODULUS if length > 0 else 0
    parts = length - BRACKETS
    pairs = sum(
        count_expressions(left, operators) * count_expressions(parts - left, operators) for left in range(1, parts)
    )
    return operators * pairs
