"""What a task gives: vocabularies and named, disjoint sets of (source, target) token sequences."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

Example = tuple[tuple[str, ...], tuple[str, ...]]


@dataclass
class LengthRange:
    """Lengths in target tokens without BOS and EOS, both ends included; None leaves an end open."""

    min_length: int | None = None
    max_length: int | None = None

    def holds(self, length: int) -> bool:
        return (self.min_length or 0) <= length and (self.max_length is None or length <= self.max_length)


class Task(ABC):
    """A source of examples. Arguments before ``*`` in the constructor are injected: ``seed`` is ``data.seed``."""

    source_tokens: tuple[str, ...]
    """Every token a source can hold, in a fixed order."""
    target_tokens: tuple[str, ...]
    """Every token a target can hold. The same object as `source_tokens` where both sides share a vocabulary."""
    length_side: ClassVar[Literal["source", "target"]] = "target"
    """The side whose tokens are an example's length in reports. ``source`` where the target says nothing about it, as
    in tasks that answer with one token."""

    @abstractmethod
    def sets(self) -> dict[str, list[Example]]:
        """``train`` and the evaluation sets, disjoint from each other and from ``train``.

        Evaluation sets are named ``val_*`` or ``test_*``: ``iid`` (held out from the training distribution), ``longer``
        (targets beyond the trained length) or ``ood`` (another kind of generalisation). A pure function of the options
        and the seed.
        """
