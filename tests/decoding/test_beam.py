"""Beam search: through the cache as without one, with every encoding; its scores, its order, when it stops."""

from typing import Any

import pytest
import torch
from torch import Tensor

from relformer.decoding import DecodingOptions, Hypothesis, decode
from relformer.decoding.beam import beam_search
from relformer.decoding.problem import posed
from relformer.model import Seq2Seq
from tests.decoding.reference import log_probabilities, same, slow_beam_search, unpadded
from tests.model.models import BOS, PLACES, batch, build, hold_length, loss_of

EOS = 2
LENGTHS = [9, 7, 4]
"""Of the sources in a batch."""
LIMIT: dict[str, Any] = {"max_length_base": 4, "max_length_factor": 1.0}
"""Beyond the tables of the relative encodings, within those of the absolute ones."""


def model_of(place: str) -> Seq2Seq:
    model = build(place, model={"tie": "none"})
    hold_length(model)
    return model


def both(place: str, **chosen: Any) -> tuple[list[list[Hypothesis]], list[list[Hypothesis]]]:
    """What a batch gives and what each sentence gives alone, slowly."""
    options = DecodingOptions(**LIMIT, **chosen)
    model, (source, _) = model_of(place), batch()
    slow = [
        slow_beam_search(model, row, options, 4 + length, EOS)
        for row, length in zip(unpadded(source), LENGTHS, strict=True)
    ]
    return decode(model, source, options, BOS, EOS), slow


@pytest.mark.parametrize("place", PLACES)
def test_it_is_the_search_that_runs_the_whole_prefix_again(place: str) -> None:
    """In a ragged batch of which sentences leave."""
    same(*both(place, beams=3, n_best=3))


@pytest.mark.parametrize("place", ["t5@cross", "rope", "forgetting", "randomized"])
@pytest.mark.parametrize("normalization", ["none", "average", "wu"])
@pytest.mark.parametrize("early_stop", [True, False])
@pytest.mark.parametrize(("beams", "n_best"), [(2, 1), (4, 4)])
def test_so_it_is_under_every_option(place: str, normalization: Any, early_stop: bool, beams: int, n_best: int) -> None:
    same(*both(place, beams=beams, n_best=n_best, length_normalization=normalization, early_stop=early_stop))


def test_sentences_end_at_different_lengths_and_at_the_limit() -> None:
    """Guards the tests above."""
    found = [h for place in PLACES[::5] for each in both(place, beams=3, n_best=3)[0] for h in each]
    assert {h.reached_limit for h in found} == {True, False}
    assert len({len(h.tokens) for h in found}) > 5


@pytest.mark.parametrize("place", PLACES)
def test_scores_are_the_log_probabilities_of_a_full_pass(place: str) -> None:
    model, (source, _) = model_of(place), batch()
    options = DecodingOptions(beams=4, n_best=4, length_normalization="wu", **LIMIT)
    for row, found in zip(unpadded(source), decode(model, source, options, BOS, EOS), strict=True):
        for h in found:
            rows = h.tokens if h.reached_limit else [*h.tokens, EOS]
            with torch.no_grad():
                logits = model(row[None], torch.tensor([[BOS, *rows[:-1]]]))[0]
            gains = logits.log_softmax(-1)[torch.arange(len(rows)), rows]
            assert h.score == pytest.approx(float(gains.sum()), abs=1e-3)
            assert h.normalised == pytest.approx(h.score / ((5 + len(rows)) / 6) ** 0.6)


@pytest.mark.parametrize("place", ["none", "alibi", "rope@cross", "deberta", "shape"])
@pytest.mark.parametrize("beams", [1, 4])
def test_a_sentence_does_not_know_its_batch(place: str, beams: int) -> None:
    model, (source, _) = model_of(place), batch()
    options = DecodingOptions(beams=beams, n_best=beams, **LIMIT)
    together = decode(model, source, options, BOS, EOS)
    turned = decode(model, source.flip(0), options, BOS, EOS)
    same(turned[::-1], together)
    same([decode(model, row[None], options, BOS, EOS)[0] for row in unpadded(source)], together)


@pytest.mark.parametrize("place", PLACES)
def test_one_beam_is_greedy_search(place: str) -> None:
    model, (source, _) = model_of(place), batch()
    options = DecodingOptions(**LIMIT)
    with torch.no_grad():
        beam = beam_search(model, posed(model, source, options, BOS, EOS, None))
    same(beam, decode(model, source, options, BOS, EOS))


@pytest.mark.parametrize("place", PLACES)
def test_decoding_leaves_nothing_behind(place: str) -> None:
    """Training goes on as if nothing had been decoded."""
    model, (source, target) = model_of(place), batch()
    names = set(model.state_dict())
    decode(model, source, DecodingOptions(beams=2, **LIMIT), BOS, EOS)
    assert set(model.state_dict()) == names
    other = model_of(place)
    for each in (model, other):
        loss_of(each, source, target).backward()
    for (name, p), q in zip(model.named_parameters(), other.parameters(), strict=True):
        assert p.grad is not None and q.grad is not None
        assert torch.equal(p.grad, q.grad), name


def test_hypotheses_come_best_first_and_those_cut_off_last() -> None:
    for place in PLACES[::7]:
        for found in decode(model_of(place), batch()[0], DecodingOptions(beams=5, n_best=5, **LIMIT), BOS, EOS):
            keys = [(h.reached_limit, -h.normalised) for h in found]
            assert keys == sorted(keys)
            assert len({tuple(h.tokens) for h in found}) == len(found) == 5


def test_the_search_finds_what_greedy_misses() -> None:
    """More beams never did worse here, and did better somewhere; with no early stop and no normalisation."""
    gained = 0.0
    for place in PLACES[::5]:
        model, (source, _) = model_of(place), batch()
        options = [DecodingOptions(beams=n, length_normalization="none", early_stop=False, **LIMIT) for n in (1, 6)]
        one, many = (decode(model, source, each, BOS, EOS) for each in options)
        for (few,), (more,) in zip(one, many, strict=True):
            if not few.reached_limit:
                assert more.score > few.score - 1e-4
                gained += more.score - few.score
    assert gained > 0.1


def test_an_ended_sentence_leaves_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    model, (source, _) = model_of("rope"), batch()
    sizes = []
    step = model.step

    def counted(tokens: Tensor, cache: Any) -> Tensor:
        sizes.append((len(tokens), len(cache.cross[0].k)))
        return step(tokens, cache)

    monkeypatch.setattr(model, "step", counted)
    options = DecodingOptions(beams=3, max_length_base=0, max_length_factor=1)
    decode(model, source, options, BOS, eos=-1)
    assert sizes == [(3, 3)] + [(9, 3)] * 3 + [(6, 2)] * 3 + [(3, 1)] * 2


def test_without_an_end_all_reach_the_limit() -> None:
    options = DecodingOptions(beams=3, n_best=2, max_length_base=5, max_length_factor=0.5)
    for length, found in zip(LENGTHS, decode(model_of("t5"), batch()[0], options, BOS, eos=-1), strict=True):
        assert [(len(h.tokens), h.reached_limit) for h in found] == [(5 + length // 2, True)] * 2


def test_the_best_next_token_is_the_first_of_the_beam() -> None:
    """Guards the reference: one step of it by hand."""
    model, (source, _) = model_of("t5"), batch()
    options = DecodingOptions(beams=3, n_best=3, max_length_base=1, max_length_factor=0)
    found = decode(model, source[:1], options, BOS, eos=-1)[0]
    values, tokens = log_probabilities(model, source[:1], [[]])[0].topk(3)
    assert [h.tokens for h in found] == [[token] for token in tokens.tolist()]
    assert [h.score for h in found] == pytest.approx(values.tolist(), abs=1e-5)
