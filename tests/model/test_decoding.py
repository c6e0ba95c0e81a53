"""Every encoding in every slot: the cache, padding, causality, ragged batches and greedy decoding."""

import pytest
import torch
from torch import Tensor

from relformer.decoding import greedy
from relformer.model import Seq2Seq
from tests.model.models import BOS, PAD, PLACES, TARGETS, batch, build, check_cache, check_causal, check_padding


def test_relative_encodings_may_stand_in_cross_attention_and_absolute_ones_not() -> None:
    """Guards the lists below."""
    crossed = {p.partition("@")[0] for p in PLACES if "@" in p}
    assert crossed >= {"none", "alibi", "t5", "simple_bias", "gated_bias", "rope", "shaw", "transformer_xl"}
    assert not crossed & {"sinusoidal", "learned"}


@pytest.mark.parametrize("place", PLACES)
def test_cached_is_uncached(place: str) -> None:
    check_cache(build(place))


@pytest.mark.parametrize("backend", ["dense", "sdpa"])
@pytest.mark.parametrize("place", ["none", "alibi@cross", "t5@cross", "rope@cross", "simple_bias"])
def test_cached_is_uncached_on_each_backend(place: str, backend: str) -> None:
    check_cache(build(place, backend=backend))


@pytest.mark.parametrize("place", PLACES)
def test_padding_changes_nothing(place: str) -> None:
    check_padding(build(place))


@pytest.mark.parametrize("place", PLACES)
def test_outputs_never_see_later_tokens(place: str) -> None:
    check_causal(build(place))


@pytest.mark.parametrize("place", PLACES)
@torch.no_grad()
def test_rows_of_a_ragged_batch_are_the_single_rows(place: str) -> None:
    model, (source, target) = build(place), batch()
    together = model(source, target)
    for row in range(3):
        real = int(source[row].ne(PAD).sum())
        alone = model(source[row : row + 1, :real], target[row : row + 1])
        torch.testing.assert_close(together[row : row + 1], alone, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("place", [p for p in PLACES if not p.startswith("none")])
@torch.no_grad()
def test_positions_reach_the_output(place: str) -> None:
    """Guards the tests above, which a model without positions passes."""
    source, target = batch()
    name, _, cross = place.partition("@")
    other = build(name if cross else "none")
    assert (build(place)(source, target) - other(source, target)).abs().max() > 1e-2


@torch.no_grad()
def naive(model: Seq2Seq, source: Tensor, steps: int) -> Tensor:
    """Greedy decoding by a full pass a token, without a stop."""
    tokens = torch.full((len(source), 1), BOS)
    for _ in range(steps):
        tokens = torch.cat((tokens, model(source, tokens)[:, -1:].argmax(-1)), dim=1)
    return tokens[:, 1:]


@pytest.mark.parametrize("place", PLACES)
def test_greedy_decoding_is_the_naive_one(place: str) -> None:
    model, (source, _) = build(place, model={"tie": "none"}), batch()
    free = naive(model, source, 12)
    assert torch.equal(greedy(model, source, 12, BOS, eos=-1), free)

    eos = int(free[0, 3])
    ends = [row.index(eos) if eos in row else 11 for row in free.tolist()]
    expected = torch.full((3, max(ends) + 1), PAD)
    for row, end in enumerate(ends):
        expected[row, : end + 1] = free[row, : end + 1]
    assert torch.equal(greedy(model, source, 12, BOS, eos), expected)


def test_greedy_decoding_says_different_things() -> None:
    """Guards the test above: rows differ, and more than one token comes out."""
    model, (source, _) = build("rope@cross", model={"tie": "none"}), batch()
    free = naive(model, source, 12)
    assert len(free.unique()) > 2
    assert not torch.equal(free[0], free[1])


def test_greedy_decoding_of_nothing() -> None:
    assert greedy(build("none"), batch()[0], 0, BOS, 2).shape == (3, 0)


@pytest.mark.parametrize("place", PLACES)
@torch.no_grad()
def test_an_unfinished_cache_can_be_planned_longer_than_it_is_used(place: str) -> None:
    """How many tokens may follow changes none of the first ones."""
    model, (source, target) = build(place), batch()
    short, long = (model.step(target, model.start(source, planned)) for planned in (10, 24))
    torch.testing.assert_close(short, long, rtol=1e-5, atol=1e-5)
    assert short.shape == (3, 10, TARGETS)
