"""Even pairs (Deletang et al. 2022, arXiv:2207.02098): is the number of places where 0 meets 1 even or odd?

    0 0 1 1 1 0 -> even        one 01 and one 10

It is even where the first bit equals the last, so the task asks for two places only. The paper answers 0 for even and 1
for odd.
"""

import random

from relformer.data.task import Example
from relformer.data.tasks.by_length import SourceLengthTask
from relformer.registry import tasks


@tasks.register("even_pairs", describes="bits to whether the number of changes between 0 and 1 is even or odd")
class EvenPairs(SourceLengthTask):
    source_tokens = ("0", "1")
    target_tokens = ("even", "odd")

    def count(self, length: int) -> int:
        return 2**length

    def example(self, rng: random.Random, length: int) -> Example:
        bits = tuple(rng.choices(self.source_tokens, k=length))
        return bits, (self.target_tokens[bits[0] != bits[-1]],)
