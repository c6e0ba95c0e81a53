"""T5's span corruption (Raffel et al. 2020, arXiv:1910.10683; `random_spans_helper` of its code).

    noise = clip(round(share * L), 1, L - 1)        spans = max(1, round(noise / mean_span))        halves to even

Noise and the rest are each cut into `spans` non-empty parts, all such cuts equally likely, and interleaved, the rest
first: a text never begins with noise and always ends with it. In the source a sentinel stands for each span of noise;
the target is each sentinel and what it stands for. Begin and end of sequence are not added here. Two departures: a text
of one token has no noise (source: the text, target: nothing), and spans are never more than the tokens that part them,
which takes a share above mean_span / (1 + mean_span) to matter.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from relformer.errors import OptionError, UserError


@dataclass(frozen=True)
class SpanCorruption:
    """Options:
    noise_share: the part of a text's tokens that is hidden.
    mean_span: tokens in a span of noise, on average.
    sentinels: how many there are; they bound the length of a text, see `longest`.
    """

    noise_share: float = 0.15
    mean_span: float = 3.0
    sentinels: int = 100

    def __post_init__(self) -> None:
        if not 0 < self.noise_share < 1:
            raise OptionError("noise_share", self.noise_share, "must lie between 0 and 1; T5 uses 0.15")
        if not self.mean_span >= 1:
            raise OptionError("mean_span", self.mean_span, "must be at least 1 token; T5 uses 3")
        if self.sentinels < 1:
            raise OptionError("sentinels", self.sentinels, "must be at least 1; T5 uses 100")


def corrupt(
    ids: Sequence[int], rng: random.Random, options: SpanCorruption, sentinels: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Source and target of a text; `sentinels` are ids in the order of use (in T5 from the top of the vocabulary down).

    Raises:
        UserError: more spans than sentinels, or a sentinel among `ids`.
    """
    noise, spans = _noise_and_spans(len(ids), options)
    if spans > len(sentinels):
        raise UserError(
            f"a text of {len(ids)} tokens has {spans} spans of noise, but there are {len(sentinels)} sentinels; "
            f"cut it, or raise sentinels={options.sentinels}"
        )
    if not set(ids).isdisjoint(sentinels[:spans]):
        raise UserError("the text holds the id of a sentinel; sentinels must lie outside the text's vocabulary")
    if not spans:
        return list(ids), []
    source: list[int] = []
    target: list[int] = []
    begin = 0
    parts = zip(_composition(len(ids) - noise, spans, rng), _composition(noise, spans, rng), sentinels, strict=False)
    for kept, hidden, sentinel in parts:
        source += [*ids[begin : begin + kept], sentinel]
        target += [sentinel, *ids[begin + kept : begin + kept + hidden]]
        begin += kept + hidden
    return source, target


def restore(source: Sequence[int], target: Sequence[int], sentinels: Sequence[int]) -> list[int]:
    """The text that `corrupt` took apart.

    Raises:
        ValueError: source and target do not have the same sentinels in the same order.
    """
    known = set(sentinels)
    hidden: dict[int, list[int]] = {}
    for number in target:
        if number in known:
            hidden[number] = []
        elif hidden:
            hidden[next(reversed(hidden))].append(number)
        else:
            raise ValueError(f"the target begins with {number}, which is no sentinel")
    if [number for number in source if number in known] != list(hidden):
        raise ValueError(f"the sentinels of the target are {list(hidden)}, not those of the source")
    return [token for number in source for token in hidden.get(number, [number])]


def lengths(length: int, options: SpanCorruption) -> tuple[int, int]:
    """Tokens in the source and in the target of a text of `length` tokens, whatever is drawn."""
    noise, spans = _noise_and_spans(length, options)
    return length - noise + spans, noise + spans


def longest(options: SpanCorruption) -> int:
    """The most tokens of a text for which there are sentinels: 2,009 with T5's options."""
    share, most = options.noise_share, options.sentinels
    enough = ceil((most + 2) * (options.mean_span / share + 1 / (1 - share)))
    return bisect_right(range(enough), most, key=lambda length: _noise_and_spans(length, options)[1]) - 1


def _noise_and_spans(length: int, options: SpanCorruption) -> tuple[int, int]:
    if length < 2:
        return 0, 0
    noise = min(max(round(length * options.noise_share), 1), length - 1)
    spans = max(round(noise / options.mean_span), 1)
    return noise, min(spans, length - noise)


def _composition(total: int, parts: int, rng: random.Random) -> list[int]:
    """`total` as a sum of `parts` positive numbers: each choice of cuts is one composition."""
    cuts = [0, *sorted(rng.sample(range(1, total), parts - 1)), total]
    return [end - begin for begin, end in pairwise(cuts)]
