"""Parity: is the number of ones even or odd?

    1 0 1 1 -> odd

As in Kazemnejad et al. (2023, arXiv:2305.19466; trained on 1-8 bits, tested on 9-16) without scratchpad, which is
``parity_check`` of Deletang et al. (2022, arXiv:2207.02098). They answer 0 for even and 1 for odd.
"""

import random

from relformer.data.task import Example
from relformer.data.tasks.by_length import SourceLengthTask
from relformer.registry import tasks


@tasks.register("parity", describes="bits to whether the number of ones is even or odd")
class Parity(SourceLengthTask):
    source_tokens = ("0", "1")
    target_tokens = ("even", "odd")

    def count(self, length: int) -> int:
        return 2**length

    def example(self, rng: random.Random, length: int) -> Example:
        bits = tuple(rng.choices(self.source_tokens, k=length))
        return bits, (self.target_tokens[bits.count("1") % 2],)
