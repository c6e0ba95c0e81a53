"""The whole part of a binary number's square root, highest bit first (Deletang et al. 2022, arXiv:2207.02098).

    1 0 0 1 0 1 -> 1 1 0        37 -> 6

The source is a positive number, which may begin with zeros. The target has half as many bits, rounded up, so it may
begin with zeros as well.
"""

import random
from math import isqrt

from relformer.data.task import Example
from relformer.data.tasks.by_length import SourceLengthTask
from relformer.registry import tasks


@tasks.register("compute_sqrt", describes="a binary number to the whole part of its square root")
class ComputeSqrt(SourceLengthTask):
    source_tokens = target_tokens = ("0", "1")

    def count(self, length: int) -> int:
        return 2**length - 1

    def example(self, rng: random.Random, length: int) -> Example:
        number = rng.randint(1, 2**length - 1)
        return tuple(f"{number:0{length}b}"), tuple(f"{isqrt(number):0{(length + 1) // 2}b}")
