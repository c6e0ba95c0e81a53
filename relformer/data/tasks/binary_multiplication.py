"""Multiplication of binary numbers, lowest bit first (Deletang et al. 2022, arXiv:2207.02098).

    0 0 1 * 0 1 1 0 1 -> 0 0 0 1 1 0 1        4 * 22 = 88

Format and departures: see `binary`.
"""

from relformer.data.tasks.binary import BinaryOperation
from relformer.registry import tasks


@tasks.register("binary_multiplication", describes="two binary numbers, lowest bit first, to their product")
class BinaryMultiplication(BinaryOperation):
    operator = "*"

    def result(self, a: int, b: int) -> int:
        return a * b
