"""Tokens to ids and back. Ids 0, 1, 2 are padding, begin and end of sequence in every vocabulary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from relformer.errors import UserError

PAD, BOS, EOS = 0, 1, 2
SPECIAL = ("<pad>", "<bos>", "<eos>")


class Vocabulary:
    """An ordered list of token strings behind the special ones."""

    def __init__(self, tokens: Iterable[str]) -> None:
        self.tokens = (*SPECIAL, *tokens)
        self.ids = {token: number for number, token in enumerate(self.tokens)}
        if len(self.ids) < len(self.tokens):
            twice = next(t for t in self.tokens if self.tokens.count(t) > 1)
            raise UserError(f"the vocabulary lists {twice!r} twice; every token needs one id")

    def __len__(self) -> int:
        return len(self.tokens)

    def encode(self, tokens: Sequence[str]) -> list[int]:
        """Raises UserError where a token is not in the vocabulary."""
        try:
            return [self.ids[token] for token in tokens]
        except KeyError as unknown:
            raise UserError(f"token {unknown} is not in the vocabulary of {len(self)} tokens") from None

    def decode(self, ids: Iterable[int]) -> list[str]:
        return [self.tokens[number] for number in ids]
