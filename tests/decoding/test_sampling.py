"""Sampling: the distribution of the draws, what narrows it, and that a sentence keeps its own random numbers."""

from typing import Any

import pytest
import torch
from torch import Tensor

from relformer.decoding import DecodingOptions, decode
from relformer.decoding.sampling import drawn, uniforms
from tests.decoding.reference import same, unpadded
from tests.model.models import BOS, PAD, PLACES, batch, build

EOS = 2
TOY = torch.tensor([0.05, 0.4, 0.0, 0.25, 0.3])


def shares(temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None) -> Tensor:
    """How often each token of the toy distribution is drawn, by evenly spread numbers."""
    uniform = (torch.arange(10_000) + 0.5) / 10_000
    tokens = drawn(TOY.log().expand(10_000, -1), uniform, temperature, top_k, top_p)
    return tokens.bincount(minlength=5) / 10_000


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, TOY),
        ({"top_k": 5}, TOY),
        ({"top_k": 2}, torch.tensor([0, 0.4, 0, 0, 0.3]) / 0.7),
        ({"top_k": 1}, torch.tensor([0, 1.0, 0, 0, 0])),
        ({"top_p": 1.0}, TOY),
        ({"top_p": 0.4}, torch.tensor([0, 1.0, 0, 0, 0])),
        ({"top_p": 0.41}, torch.tensor([0, 0.4, 0, 0, 0.3]) / 0.7),
        ({"top_p": 0.9}, torch.tensor([0, 0.4, 0, 0.25, 0.3]) / 0.95),
        ({"top_k": 2, "top_p": 0.5}, torch.tensor([0, 1.0, 0, 0, 0])),
        ({"temperature": 0.5}, TOY**2 / (TOY**2).sum()),
        ({"temperature": 2.0, "top_k": 2}, torch.tensor([0, 0.4, 0, 0, 0.3]).sqrt() / (0.4**0.5 + 0.3**0.5)),
    ],
    ids=str,
)
def test_the_draws_have_the_distribution(options: dict[str, float], expected: Tensor) -> None:
    torch.testing.assert_close(shares(**options), expected, rtol=0, atol=2e-4)  # type: ignore[arg-type]


def test_the_last_number_below_one_draws_a_possible_token() -> None:
    top = torch.tensor([1 - 2.0**-24])
    assert float(TOY[drawn(TOY.log()[None], top, 1.0, None, None)]) > 0
    assert drawn(TOY.log()[None], top, 1.0, None, 0.5).tolist() == [4]
    assert drawn(TOY.log()[None], torch.zeros(1), 1.0, None, None).tolist() == [1]


@pytest.mark.parametrize("place", PLACES)
def test_the_first_of_one_is_greedy(place: str) -> None:
    model, (source, _) = build(place, model={"tie": "none"}), batch()
    limit: dict[str, Any] = {"max_length_base": 4, "max_length_factor": 1.0}
    greedy = decode(model, source, DecodingOptions(**limit), BOS, EOS)
    same(decode(model, source, DecodingOptions(sample=True, top_k=1, **limit), BOS, EOS), greedy)
    three = decode(model, source, DecodingOptions(sample=True, top_k=1, n_best=3, temperature=7.0, **limit), BOS, EOS)
    for copy in range(3):
        same([each[copy : copy + 1] for each in three], greedy)


@pytest.mark.parametrize("place", ["t5@cross", "rope", "shape"])
def test_a_sentence_keeps_its_random_numbers(place: str) -> None:
    """Whatever the batch; another seed gives others, and so does another source."""
    model, (source, _) = build(place, model={"tie": "none"}), batch()
    options = DecodingOptions(sample=True, n_best=3)
    together = decode(model, source, options, BOS, EOS)
    same(decode(model, source.flip(0), options, BOS, EOS)[::-1], together)
    same([decode(model, row[None], options, BOS, EOS)[0] for row in unpadded(source)], together)
    other = decode(model, source, DecodingOptions(sample=True, n_best=3, seed=1), BOS, EOS)
    assert [h.tokens for h in other[0]] != [h.tokens for h in together[0]]
    assert len({tuple(h.tokens) for each in together for h in each}) > 6


def test_scores_are_the_models_whatever_the_temperature() -> None:
    model, (source, _) = build("t5", model={"tie": "none"}), batch()
    options = DecodingOptions(sample=True, temperature=1.7, top_p=0.8, no_repeat_ngram=2, n_best=2)
    for row, found in zip(unpadded(source), decode(model, source, options, BOS, EOS), strict=True):
        for h in found:
            rows = h.tokens if h.reached_limit else [*h.tokens, EOS]
            with torch.no_grad():
                logits = model(row[None], torch.tensor([[BOS, *rows[:-1]]]))[0]
            gains = logits.log_softmax(-1)[torch.arange(len(rows)), rows]
            assert h.score == pytest.approx(float(gains.sum()), abs=1e-3)


def test_numbers_follow_from_the_sentence_alone() -> None:
    source = torch.tensor([[3, 4, PAD], [3, 4, 5]])
    both = uniforms(source, PAD, 0, [4, 9], 2)
    assert both.shape == (2, 9, 2)
    assert torch.equal(both[0, :4], uniforms(source[:1, :2], PAD, 0, [4], 2)[0])
    assert not torch.equal(both[0, :4], both[1, :4])
