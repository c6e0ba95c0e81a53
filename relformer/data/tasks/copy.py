"""Copying: the i-th letter of the source is the i-th of the target."""

from relformer.data.tasks.by_length import Tokens
from relformer.data.tasks.letters import LetterTask
from relformer.registry import tasks


@tasks.register("copy", describes="letters to the same letters")
class Copy(LetterTask):
    def transform(self, letters: Tokens) -> Tokens:
        return letters
