"""Reversal: the longer the string, the further apart a letter and its place in the target.

``letters=2 min_length=3`` is ``reverse_string`` of Deletang et al. (2022, arXiv:2207.02098).
"""

from relformer.data.tasks.by_length import Tokens
from relformer.data.tasks.letters import LetterTask
from relformer.registry import tasks


@tasks.register("reverse", describes="letters to the same letters backwards")
class Reverse(LetterTask):
    def transform(self, letters: Tokens) -> Tokens:
        return letters[::-1]
