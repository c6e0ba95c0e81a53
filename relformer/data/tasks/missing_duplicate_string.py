"""The missing bit of a string given twice (Deletang et al. 2022, arXiv:2207.02098).

    0 1 1 0 0 ? 1 0 -> 1        the string 0110 twice

A source of odd length ends with the token ``empty``.
"""

import random

from relformer.data.task import Example
from relformer.data.tasks.by_length import SourceLengthTask
from relformer.registry import tasks

MISSING, EMPTY = "?", "empty"


@tasks.register("missing_duplicate_string", describes="bits given twice, one left out, to that one")
class MissingDuplicateString(SourceLengthTask):
    source_tokens = ("0", "1", MISSING, EMPTY)
    target_tokens = ("0", "1")

    def count(self, length: int) -> int:
        half = length // 2
        return 2**half * 2 * half

    def example(self, rng: random.Random, length: int) -> Example:
        twice = rng.choices(self.target_tokens, k=length // 2) * 2
        place = rng.randrange(len(twice))
        rest = [EMPTY] * (length % 2)
        return (*twice[:place], MISSING, *twice[place + 1 :], *rest), (twice[place],)
