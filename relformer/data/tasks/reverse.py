"""Reversal: the longer the string, the further apart a letter and its place in the target."""

from relformer.data.tasks.letters import Letters, LetterTask
from relformer.registry import tasks


@tasks.register("reverse", describes="letters to the same letters backwards")
class Reverse(LetterTask):
    def transform(self, letters: Letters) -> Letters:
        return letters[::-1]
