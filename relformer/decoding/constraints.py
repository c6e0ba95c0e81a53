"""What may not come next, whatever its probability: forced prefixes, too early an end, repeated n-grams."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from relformer.decoding.hypothesis import Draft


class Constraints:
    """The rules of a batch, by sentence. A prefix wins over the others, and none leaves a row without a choice.

    Args:
        minimum: the least number of tokens of each sentence, EOS among them.
        prefixes: what each sentence's target must begin with.
        ngram: no n-gram of this size twice; 0 for any.
    """

    def __init__(self, minimum: Sequence[int], prefixes: Sequence[list[int]], ngram: int, eos: int) -> None:
        self.minimum, self.prefixes, self.ngram, self.eos = minimum, prefixes, ngram, eos
        self.idle_from = 0 if ngram else max(0, *minimum, *map(len, prefixes))

    def applied(self, logits: Tensor, drafts: Sequence[Draft], sentences: Sequence[int]) -> Tensor:
        """Logits (N, V) with -inf where a token may not follow; row n continues drafts[n] of sentences[n]."""
        if not self.ngram and len(drafts[0].tokens) >= self.idle_from:
            return logits
        rows: list[int] = []
        banned: list[int] = []
        forced: list[tuple[int, int]] = []
        for row, (draft, sentence) in enumerate(zip(drafts, sentences, strict=True)):
            length, prefix = len(draft.tokens), self.prefixes[sentence]
            if length < len(prefix):
                forced.append((row, prefix[length]))
                continue
            tokens = self.barred(draft.tokens, length + 1 < self.minimum[sentence], logits.shape[-1])
            rows += [row] * len(tokens)
            banned += tokens
        logits = logits.clone()
        if rows:
            logits[rows, banned] = -torch.inf
        if forced:
            only, kept = (torch.tensor(part, device=logits.device) for part in zip(*forced, strict=True))
            values = logits[only, kept]
            logits[only] = -torch.inf
            logits[only, kept] = values
        return logits

    def barred(self, tokens: list[int], early: bool, vocabulary: int) -> set[int]:
        """The tokens that may not follow these."""
        found = repeating(tokens, self.ngram) if self.ngram else set()
        if early and self.eos >= 0 and len(found) + 1 < vocabulary:
            found.add(self.eos)
        return found if len(found) < vocabulary else set()


def repeating(tokens: list[int], size: int) -> set[int]:
    """The tokens that would end an n-gram of this size that the sequence already has."""
    last = tokens[len(tokens) - size + 1 :]
    starts = range(len(tokens) - size + 1)
    return {tokens[at + size - 1] for at in starts if tokens[at : at + size - 1] == last}
