"""Texts with spans of them hidden, hidden anew in every epoch (T5's denoising)."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import numpy as np

from relformer.data.encoded import EncodedSet, Ids, Integers
from relformer.data.text.span_corruption import SpanCorruption, corrupt, lengths
from relformer.data.text.tokenizer import Tokenizer


class SentinelTokenizer:
    """A tokenizer with T5's sentinels on top: `<extra_id_0>` is the last id, the others count down from it."""

    sentences = False

    def __init__(self, text: Tokenizer, count: int) -> None:
        self.text, self.unknown, self.json = text, text.unknown, text.json
        self.tokens = (*text.tokens, *(f"<extra_id_{number}>" for number in reversed(range(count))))
        self.sentinels = range(len(self) - 1, len(text) - 1, -1)
        """Their ids in the order of use."""

    def __len__(self) -> int:
        return len(self.tokens)

    def encode(self, text: str) -> list[int]:
        return self.text.encode(text)

    def decode(self, ids: Iterable[int]) -> str:
        """Text and the names of sentinels, with spaces between them."""
        runs = groupby(ids, key=lambda number: number >= len(self.text))
        parts: Iterator[str] = (
            " ".join(self.tokens[number] for number in run) if hidden else self.text.decode(run) for hidden, run in runs
        )
        return " ".join(filter(None, parts))

    def state(self) -> dict[str, object]:
        return {**self.text.state(), "sentinels": len(self.sentinels)}


class Corrupted(EncodedSet):
    """Texts (the sources of `texts`) as pairs of what is left and what was hidden; other spans each epoch.

    The lengths of both sides hang on a text's length alone, so batches can be planned before anything is drawn.
    """

    def __init__(self, texts: EncodedSet, options: SpanCorruption, sentinels: Sequence[int], seed: int) -> None:
        self.texts, self.options, self.sentinels, self.seed = texts, options, sentinels, seed
        by_length = {int(length): lengths(int(length), options) for length in np.unique(texts.source_lengths)}
        both = np.array([by_length[length] for length in texts.source_lengths.tolist()], np.int64).reshape(-1, 2)
        super().__init__(
            Side(self, 0), Side(self, 1), both[:, 0], both[:, 1], hashes=texts.hashes, corpora=texts.corpora
        )

    def pair(self, row: int, epoch: int) -> tuple[Ids, Ids]:
        return corrupt(
            self.texts.sources[row], random.Random(f"{self.seed}/{epoch}/{row}"), self.options, self.sentinels
        )

    def select(self, rows: Integers) -> EncodedSet:
        return Corrupted(self.texts.select(rows), self.options, self.sentinels, self.seed)


class Side(Sequence[Ids]):
    """The sources or the targets of the first epoch."""

    def __init__(self, pairs: Corrupted, place: int) -> None:
        self.pairs, self.place = pairs, place

    def __len__(self) -> int:
        return len(self.pairs.texts)

    def __getitem__(self, row: int) -> Ids:  # type: ignore[override]  # no slices
        return self.pairs.pair(row, 0)[self.place]


def pieces(texts: EncodedSet, longest: int) -> EncodedSet:
    """Texts cut into pieces of at most `longest` tokens, as even as can be."""
    counts = -(-texts.source_lengths // longest)
    rows = np.repeat(np.arange(len(texts)), counts)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = texts.source_lengths[rows] * place // counts[rows]
    stops = texts.source_lengths[rows] * (place + 1) // counts[rows]
    none: list[list[int]] = [[]]
    return EncodedSet(
        Pieces(texts.sources, rows, starts, stops),
        none * len(rows),
        stops - starts,
        np.zeros(len(rows), np.int64),
        hashes=texts.hashes[rows] + place.astype(np.uint64),
    )


class Pieces(Sequence[Ids]):
    """Parts of sequences, from `starts` to `stops` in `rows`."""

    def __init__(self, of: Sequence[Ids], rows: Integers, starts: Integers, stops: Integers) -> None:
        self.of, self.rows, self.starts, self.stops = of, rows, starts, stops

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> Ids:  # type: ignore[override]  # no slices
        return self.of[int(self.rows[row])][int(self.starts[row]) : int(self.stops[row])]
