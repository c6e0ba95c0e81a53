"""Recall: pairs of a key and a value, then one of the keys; its value is asked for.

    k3 v1 k7 v2 k1 v1 k7 -> v2        length 3, distance 2

Associative recall as in Ba et al. (2016, arXiv:1610.06258), who use letters and digits and a fixed length. Length:
pairs; a source has twice as many tokens and one more. Distance: pairs from the end back to the one asked for. Keys
differ, values may be equal.
"""

import random
from math import perm

from relformer.data.task import Example
from relformer.data.tasks.distances import DistanceTask
from relformer.registry import tasks


@tasks.register("recall", describes="keys with values, and a key, to its value")
class Recall(DistanceTask):
    def name_tokens(self) -> None:
        self.keys = [f"k{number}" for number in range(self.tokens)]
        self.values = [f"v{number}" for number in range(self.tokens)]
        self.source_tokens = (*self.keys, *self.values)
        self.target_tokens = tuple(self.values)

    def farthest(self, length: int) -> int:
        return length

    def count(self, length: int) -> int:
        return perm(self.tokens, length) * self.tokens**length

    def example(self, rng: random.Random, length: int) -> Example:
        keys, values = rng.sample(self.keys, length), rng.choices(self.values, k=length)
        asked = -rng.choice(self.distances(length))
        pairs = [token for pair in zip(keys, values, strict=True) for token in pair]
        return (*pairs, keys[asked]), (values[asked],)
