"""Odds first (Deletang et al. 2022, arXiv:2207.02098): the letters at odd places, then those at even places.

    abcde -> acebd        places count from 1

The paper has two letters, ``letters=2 min_length=3`` here. Its published code puts the even places first; this is the
order of the paper's text.
"""

from relformer.data.tasks.by_length import Tokens
from relformer.data.tasks.letters import LetterTask
from relformer.registry import tasks


@tasks.register("odds_first", describes="letters to those at odd places, then those at even places")
class OddsFirst(LetterTask):
    def transform(self, letters: Tokens) -> Tokens:
        return letters[::2] + letters[1::2]
