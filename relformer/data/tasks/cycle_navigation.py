"""Cycle navigation (Deletang et al. 2022, arXiv:2207.02098): steps on a circle of five places, from place 0.

    right left stay left left -> 3

The paper writes 1, -1 and 0 for the steps.
"""

import random

from relformer.data.task import Example
from relformer.data.tasks.by_length import SourceLengthTask
from relformer.registry import tasks

PLACES = 5


@tasks.register("cycle_navigation", describes="steps left and right on a circle of five to the place they lead to")
class CycleNavigation(SourceLengthTask):
    source_tokens = ("left", "stay", "right")
    target_tokens = tuple(map(str, range(PLACES)))

    def count(self, length: int) -> int:
        return 3**length

    def example(self, rng: random.Random, length: int) -> Example:
        steps = tuple(rng.choices(self.source_tokens, k=length))
        return steps, (str((steps.count("right") - steps.count("left")) % PLACES),)
