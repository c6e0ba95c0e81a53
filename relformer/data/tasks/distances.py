"""Tasks that ask for something at a known distance, so that a longer source and a longer distance can be told apart."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal

from relformer.data.encoded import Side
from relformer.data.task import LengthRange
from relformer.data.tasks.by_length import LengthTask
from relformer.errors import OptionError

Distance = Literal["uniform", "trained", "beyond"]


class DistanceTask(LengthTask):
    """A task whose examples have a length and, within it, a distance from 1 to `farthest` of that length.

    Options:
        tokens: how many different tokens there are; none occurs twice in a source.
        distance: in `val_longer` and `test_longer`: ``beyond`` all trained distances, within the ``trained`` ones
            (so that the source alone is longer), or ``uniform`` over both. In the other sets all are equally likely.
        The others are `LengthTask`'s.
    """

    length_side: ClassVar[Side] = "source"

    def __init__(
        self,
        seed: int,
        *,
        examples: int = 100000,
        min_length: int = 2,
        max_length: int = 8,
        val: LengthRange = LengthRange(9, 10),  # noqa: B008  never mutated
        test: LengthRange = LengthRange(11, 16),  # noqa: B008
        examples_per_length: int = 500,
        tokens: int = 16,
        distance: Distance = "beyond",
    ) -> None:
        longest = max(max_length, val.max_length or 0, test.max_length or 0)
        if tokens < longest:
            raise OptionError("tokens", tokens, f"must be at least {longest}, the greatest length: no token repeats")
        self.tokens, self.distance = tokens, distance
        self.name_tokens()
        super().__init__(
            seed,
            examples=examples,
            min_length=min_length,
            max_length=max_length,
            val=val,
            test=test,
            examples_per_length=examples_per_length,
        )

    @abstractmethod
    def name_tokens(self) -> None:
        """Set `source_tokens` and `target_tokens` for that number of `tokens`."""

    @abstractmethod
    def farthest(self, length: int) -> int:
        """The greatest distance in a source of that length."""

    def distances(self, length: int) -> range:
        """The distances that examples of a length have."""
        farthest, trained = self.farthest(length), self.farthest(self.trained[-1])
        if length in self.trained or self.distance == "uniform":
            return range(1, farthest + 1)
        return range(1, trained + 1) if self.distance == "trained" else range(trained + 1, farthest + 1)
