"""Duplication: the letters twice.

    abc -> abcabc         or abc<next>abc

Without a separator as in Ontanon et al. (2022, arXiv:2108.04378; ten digits, lengths 1-16, tests 17-24) and, with
``letters=2 min_length=3``, ``duplicate_string`` of Deletang et al. (2022, arXiv:2207.02098). With one as in Kazemnejad
et al. (2023, arXiv:2305.19466; 100 tokens, lengths 1-20, tests 21-40). Length: letters of the source; the target has
twice as many tokens, and one more with a separator.
"""

from relformer.data.task import LengthRange
from relformer.data.tasks.by_length import Tokens
from relformer.data.tasks.letters import LetterTask
from relformer.registry import tasks

SEPARATOR = "<next>"


@tasks.register("duplicate", describes="letters to the same letters twice")
class Duplicate(LetterTask):
    """Source: letters. Target: the same twice.

    Options:
        separator: a token between the two copies; the others are `LetterTask`'s.
    """

    def __init__(
        self,
        seed: int,
        *,
        examples: int = 20000,
        min_length: int = 1,
        max_length: int = 10,
        val: LengthRange = LengthRange(11, 12),  # noqa: B008  never mutated
        test: LengthRange = LengthRange(13, 20),  # noqa: B008
        examples_per_length: int = 500,
        letters: int = 26,
        separator: bool = False,
    ) -> None:
        super().__init__(
            seed,
            examples=examples,
            min_length=min_length,
            max_length=max_length,
            val=val,
            test=test,
            examples_per_length=examples_per_length,
            letters=letters,
        )
        self.between: Tokens = (SEPARATOR,) if separator else ()
        self.source_tokens = self.target_tokens = (*self.letters, *self.between)

    def transform(self, letters: Tokens) -> Tokens:
        return letters + self.between + letters
