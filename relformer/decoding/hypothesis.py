"""What decoding finds, and what it is while it grows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from relformer.decoding.options import DecodingOptions


@dataclass(frozen=True)
class Hypothesis:
    """A decoded target: token ids without BOS and EOS.

    `score` is the sum of the log-probabilities that the model gives to its tokens and, where it ended, to EOS, whatever
    constraints and temperature chose them. One that `reached_limit` was cut off there.
    """

    tokens: list[int]
    score: float
    normalised: float
    reached_limit: bool


class Draft(NamedTuple):
    """A row of the batch: the tokens so far and their log-probability."""

    tokens: list[int]
    score: float

    def ended(self, options: DecodingOptions, limited: bool = False) -> Hypothesis:
        """As a hypothesis; a last EOS is in the score, not among the tokens."""
        length = len(self.tokens) + (not limited)
        return Hypothesis(self.tokens, self.score, options.normalised(self.score, length), limited)


EMPTY = Draft([], 0.0)


def ranked(found: Iterable[Hypothesis], count: int) -> list[Hypothesis]:
    """The best of them, best first. One that was cut off owes its EOS, so it stands behind those that ended."""
    return sorted(found, key=lambda hypothesis: (hypothesis.reached_limit, -hypothesis.normalised))[:count]
