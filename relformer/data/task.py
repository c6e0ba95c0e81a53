"""What gives a corpus: tasks whose examples are sequences of whole tokens, and sources of text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from relformer.data.encoded import Corpus, EncodedSet, Side
from relformer.data.vocabulary import Coder, Vocabulary

Example = tuple[tuple[str, ...], tuple[str, ...]]
BEYOND = ("_longer", "_ood")
"""How the names of sets beyond the trained distribution end."""


def any_beyond(names: Iterable[str]) -> bool:
    """Whether one of the sets lies beyond the trained distribution."""
    return any(name.endswith(BEYOND) for name in names)


@dataclass
class LengthRange:
    """Lengths in target tokens without BOS and EOS, both ends included; None leaves an end open."""

    min_length: int | None = None
    max_length: int | None = None

    def holds(self, length: int) -> bool:
        return (self.min_length or 0) <= length and (self.max_length is None or length <= self.max_length)


class Source(ABC):
    """Whatever `data=NAME` can choose. Arguments before ``*`` in the constructor are injected: ``seed`` is
    ``data.seed``."""

    @abstractmethod
    def corpus(self, coders: tuple[Coder, Coder] | None = None, train: bool = True) -> Corpus:
        """``train`` and the evaluation sets, encoded; by `coders` where a trained run brings its own. Where `train` is
        not needed, files that have evaluation sets of their own may leave it out.

        Evaluation sets are named ``val_*`` or ``test_*``: ``iid`` (held out from the training distribution), ``longer``
        (beyond the trained length) or ``ood`` (another kind of generalisation). A pure function of the options, the
        seed and the files they name.
        """


class Task(Source):
    """Generated examples of whole tokens, their sets disjoint from each other."""

    source_tokens: tuple[str, ...]
    """Every token a source can hold, in a fixed order."""
    target_tokens: tuple[str, ...]
    """Every token a target can hold. The same object as `source_tokens` where both sides share a vocabulary."""
    length_side: ClassVar[Side] = "target"
    """The side whose length the sets differ in. A task with an answer of one token says "source"."""

    @abstractmethod
    def sets(self) -> dict[str, list[Example]]:
        """``train`` and the evaluation sets, disjoint from each other and from ``train``."""

    def corpus(self, coders: tuple[Coder, Coder] | None = None, train: bool = True) -> Corpus:
        source = Vocabulary(self.source_tokens)
        target = source if self.target_tokens is self.source_tokens else Vocabulary(self.target_tokens)
        sets = {
            name: EncodedSet([source.ids_of(s) for s, _ in examples], [target.ids_of(t) for _, t in examples])
            for name, examples in self.sets().items()
        }
        return Corpus(source, target, sets, length_side=self.length_side)
