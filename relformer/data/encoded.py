"""Sets of examples as token ids, in memory or mapped from disk, and the corpus that holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from relformer.data.vocabulary import Coder
from relformer.errors import UserError

Ids = Sequence[int]
Integers = NDArray[np.int64]
Side = Literal["source", "target"]
T = TypeVar("T")


class EncodedSet:
    """Pairs of bare id sequences; BOS and EOS are put around them when a batch is made.

    Args:
        sources, targets: one sequence of ids an example, in memory or read on demand.
        source_lengths, target_lengths: their lengths, counted here where they are not given.
        positions: of the source tokens, where the user gave them.
        corpora: the number of the corpus each example is of, where training mixes several by `shares`.
        hashes: a number an example, equal for equal pairs; made here where it is not given.
        references: the targets as they were before tokenisation, where that may have lost something.
    """

    def __init__(
        self,
        sources: Sequence[Ids],
        targets: Sequence[Ids],
        source_lengths: Integers | None = None,
        target_lengths: Integers | None = None,
        positions: Sequence[Ids] | None = None,
        corpora: Integers | None = None,
        shares: Sequence[float] | None = None,
        hashes: NDArray[np.uint64] | None = None,
        references: Sequence[str] | None = None,
    ) -> None:
        self.sources, self.targets, self.positions = sources, targets, positions
        self.corpora, self.shares, self.references = corpora, shares, references
        self.source_lengths = counted(sources) if source_lengths is None else source_lengths
        self.target_lengths = counted(targets) if target_lengths is None else target_lengths
        if hashes is not None:
            self.hashes = hashes

    def __len__(self) -> int:
        return len(self.targets)

    def pair(self, row: int, epoch: int) -> tuple[Ids, Ids]:
        """Source and target of an example; sets that draw anew each epoch look at the epoch."""
        return self.sources[row], self.targets[row]

    def lengths(self, side: Side) -> Integers:
        return self.source_lengths if side == "source" else self.target_lengths

    @cached_property
    def hashes(self) -> NDArray[np.uint64]:
        """(n,) equal for equal pairs, else different but for one chance in 2^64."""
        pairs = zip(self.sources, self.targets, strict=True)
        return np.fromiter((hashed(str(list(s)), str(list(t))) for s, t in pairs), np.uint64, len(self))

    def select(self, rows: Integers) -> EncodedSet:
        """The examples of these rows, in this order."""
        return EncodedSet(
            Rows(self.sources, rows),
            Rows(self.targets, rows),
            self.source_lengths[rows],
            self.target_lengths[rows],
            None if self.positions is None else Rows(self.positions, rows),
            None if self.corpora is None else self.corpora[rows],
            self.shares,
            self.hashes[rows],
            None if self.references is None else Rows(self.references, rows),
        )

    def cut(self, longest: int) -> EncodedSet:
        """Both sides cut off after `longest` tokens."""
        return EncodedSet(
            Rows(self.sources, np.arange(len(self)), longest),
            Rows(self.targets, np.arange(len(self)), longest),
            np.minimum(self.source_lengths, longest),
            np.minimum(self.target_lengths, longest),
            None if self.positions is None else Rows(self.positions, np.arange(len(self)), longest),
            self.corpora,
            self.shares,
            self.hashes,
            self.references,
        )


@dataclass(frozen=True)
class Rows(Sequence[T]):
    """A view of some rows of a sequence, id lists each cut off after `longest`."""

    of: Sequence[T]
    rows: Integers
    longest: int | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> T:  # type: ignore[override]  # no slices
        found: Any = self.of[int(self.rows[row])]
        return found if self.longest is None else found[: self.longest]


def chained(parts: Sequence[EncodedSet]) -> EncodedSet:
    """Several corpora as one set, each example marked with the number of its own.

    Raises:
        UserError: some have positions and some have none.
    """
    if len(parts) == 1:
        return parts[0]
    positions = [each.positions for each in parts if each.positions is not None]
    if positions and len(positions) < len(parts):
        raise UserError("some pairs of a set have positions and some have none; give them to all or to none")
    references = [each.references for each in parts if each.references is not None]
    return EncodedSet(
        Chain([each.sources for each in parts]),
        Chain([each.targets for each in parts]),
        np.concatenate([each.source_lengths for each in parts]),
        np.concatenate([each.target_lengths for each in parts]),
        Chain(positions) if positions else None,
        np.repeat(np.arange(len(parts)), [len(each) for each in parts]),
        hashes=np.concatenate([each.hashes for each in parts]),
        references=Chain(references) if len(references) == len(parts) else None,
    )


class Chain(Sequence[T]):
    """Sequences one after another."""

    def __init__(self, parts: Sequence[Sequence[T]]) -> None:
        self.parts, self.starts = parts, np.cumsum([0, *map(len, parts)])

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __getitem__(self, row: int) -> T:  # type: ignore[override]  # no slices
        number = int(np.searchsorted(self.starts, row, side="right")) - 1
        return self.parts[number][row - int(self.starts[number])]


def counted(sequences: Sequence[Ids]) -> Integers:
    return np.fromiter(map(len, sequences), np.int64, len(sequences))


def generator(*numbers: int) -> np.random.Generator:
    """Random numbers that hang on these alone, negative ones among them, which numpy itself refuses."""
    return np.random.default_rng([number % 2**64 for number in numbers])


def hashed(source: str, target: str) -> int:
    """A pair's number among 2^64."""
    return int.from_bytes(blake2b(f"{source}\0{target}".encode(), digest_size=8).digest(), "little")


@dataclass(frozen=True)
class Corpus:
    """Vocabularies and sets; `notes` says, a line each, what was left out or changed on the way.

    `given` names the sets that came as they are from files: they are never thinned out. `length_side` is the side by
    whose length results are told apart.
    """

    source_vocabulary: Coder
    target_vocabulary: Coder
    sets: Mapping[str, EncodedSet]
    notes: list[str] = field(default_factory=list)
    given: frozenset[str] = frozenset()
    length_side: Side = "target"

    @property
    def trained_length(self) -> int:
        """The longest `length_side` in training, in tokens without BOS and EOS."""
        return int(self.sets["train"].lengths(self.length_side).max())

    @property
    def fingerprint(self) -> str:
        """Of the training pairs in their order, as text and as tokens are counted."""
        train = self.sets["train"]
        parts = (train.hashes, train.source_lengths, train.target_lengths)
        return blake2b(b"".join(part.tobytes() for part in parts), digest_size=16).hexdigest()

    def evaluation_sets(self, kind: str) -> list[str]:
        """The names of the `val` or `test` sets, in the task's order."""
        return [name for name in self.sets if name.startswith(f"{kind}_")]

    def longest(self, bos: bool, eos: bool) -> tuple[int, int]:
        """The most positions of a source and of a target over all sets, BOS and EOS counted; where positions are given,
        as many as the last of them needs."""
        sources = max(int(each.source_lengths.max()) for each in self.sets.values()) + bos + 1
        targets = max(int(each.target_lengths.max()) for each in self.sets.values()) + eos
        given = [
            ids[-1] + bos + 2 for each in self.sets.values() if each.positions is not None for ids in each.positions
        ]
        return max([sources, *given]), targets
