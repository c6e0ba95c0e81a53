"""Order: different tokens, then two of them; did the first of the two come before the second?

    t4 t9 t2 t7 ? t7 t9 -> no        length 4, distance 2

Length: tokens before the question mark. Distance: places between the two in the sequence. Half of the answers are yes.
"""

import random
from math import perm

from relformer.data.task import Example
from relformer.data.tasks.distances import DistanceTask
from relformer.registry import tasks


@tasks.register("order", describes="tokens, and two of them, to whether the first came before the second")
class Order(DistanceTask):
    target_tokens = ("yes", "no")

    def name_tokens(self) -> None:
        self.sequence_tokens = [f"t{number}" for number in range(self.tokens)]
        self.source_tokens = (*self.sequence_tokens, "?")

    def farthest(self, length: int) -> int:
        return length - 1

    def count(self, length: int) -> int:
        return perm(self.tokens, length) * 2 * (length - 1)

    def example(self, rng: random.Random, length: int) -> Example:
        sequence = rng.sample(self.sequence_tokens, length)
        distance = rng.choice(self.distances(length))
        place = rng.randrange(length - distance)
        earlier, later = sequence[place], sequence[place + distance]
        if rng.random() < 0.5:
            return (*sequence, "?", earlier, later), ("yes",)
        return (*sequence, "?", later, earlier), ("no",)
