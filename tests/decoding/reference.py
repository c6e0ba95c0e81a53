"""Beam search as it is written down: one sentence, no cache, the whole prefix again at every step."""

from collections.abc import Callable
from itertools import chain

import torch
from torch import Tensor

from relformer.decoding import DecodingOptions, Hypothesis
from relformer.model import Seq2Seq
from tests.model.models import BOS, PAD

Allowed = Callable[[list[int], int], bool]
"""Whether a token may follow these."""

Partial = tuple[float, list[int]]


@torch.no_grad()
def log_probabilities(model: Seq2Seq, source: Tensor, targets: list[list[int]]) -> Tensor:
    """What follows each of the targets, which are equally long, without BOS: (N, V)."""
    rows = torch.tensor([[BOS, *target] for target in targets])
    return model(source.expand(len(rows), -1), rows)[:, -1].log_softmax(-1)


def slow_beam_search(
    model: Seq2Seq,
    source: Tensor,
    options: DecodingOptions,
    maximum: int,
    eos: int,
    allowed: Allowed = lambda tokens, token: True,
) -> list[Hypothesis]:
    """The n best of one unpadded source (S,)."""
    live: list[Partial] = [(0.0, [])]
    ended: list[Hypothesis] = []
    for _ in range(maximum):
        following = log_probabilities(model, source[None], [tokens for _, tokens in live]).tolist()
        grown = [
            (score + gain, [*tokens, token])
            for (score, tokens), gains in zip(live, following, strict=True)
            for token, gain in enumerate(gains)
            if allowed(tokens, token)
        ]
        grown.sort(reverse=True)
        for score, tokens in grown[: options.beams]:
            if tokens[-1] == eos:
                ended.append(Hypothesis(tokens[:-1], score, normalised(options, score, len(tokens)), False))
        live = [each for each in grown[: 2 * options.beams] if each[1][-1] != eos][: options.beams]
        if over(options, ended, live, maximum):
            live = []
            break
    cut = [Hypothesis(tokens, score, normalised(options, score, len(tokens)), True) for score, tokens in live]
    best = sorted(ended, key=lambda h: -h.normalised) + sorted(cut, key=lambda h: -h.normalised)
    return best[: options.n_best]


def over(options: DecodingOptions, ended: list[Hypothesis], live: list[Partial], maximum: int) -> bool:
    if options.early_stop:
        return len(ended) >= options.beams
    values = sorted((each.normalised for each in ended), reverse=True)
    if len(values) < options.n_best:
        return False
    return all(normalised(options, score, maximum) <= values[options.n_best - 1] for score, _ in live)


def normalised(options: DecodingOptions, score: float, length: int) -> float:
    penalty = {"none": 1.0, "average": length, "wu": (5 + length) ** options.alpha / 6**options.alpha}
    return score / penalty[options.length_normalization]


def unpadded(source: Tensor) -> list[Tensor]:
    return [row[row != PAD] for row in source]


def same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    """The same hypotheses in the same order, with scores alike to rounding."""
    assert [[h.tokens for h in each] for each in found] == [[h.tokens for h in each] for each in expected]
    for got, wanted in zip(chain(*found), chain(*expected), strict=True):
        assert got.reached_limit == wanted.reached_limit
        assert abs(got.score - wanted.score) < 1e-3
        assert abs(got.normalised - wanted.normalised) < 1e-3
