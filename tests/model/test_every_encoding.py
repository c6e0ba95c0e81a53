"""Of every encoding: it trains, and a cache whose rows change places decodes the rows in their new places."""

import pytest
import torch

from tests.model.models import PLACES, TARGETS, batch, build, loss_of


@pytest.mark.parametrize("place", PLACES)
def test_two_steps_train(place: str) -> None:
    """Both losses are finite, and a third on the same batch is lower than the first."""
    model, (source, target) = build(place).train(), batch()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        torch.manual_seed(0)  # a sampler draws the same positions
        loss = loss_of(model, source, target)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    torch.manual_seed(0)
    losses.append(float(loss_of(model, source, target).detach()))
    assert all(loss < float("inf") for loss in losses)
    assert losses[2] < losses[0]


@pytest.mark.parametrize("place", PLACES)
@torch.no_grad()
def test_permuting_the_cache_permutes_the_outputs(place: str) -> None:
    """As a beam search reorders it, and drops what has ended."""
    model, (source, target) = build(place), batch()
    cache, moved = model.start(source, 10), model.start(source, 10)
    for each in (cache, moved):
        model.step(target[:, :4], each)
    order = torch.tensor([2, 0, 0])
    moved.select(order, order)
    expected = model.step(target[:, 4:6], cache)[order]
    torch.testing.assert_close(model.step(target[order, 4:6], moved), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("place", PLACES)
@torch.no_grad()
def test_beams_share_the_keys_of_their_sentence(place: str) -> None:
    """Two rows a sentence, then reordered, then without the second sentence: each decodes as it would alone."""
    model, (source, _) = build(place), batch()
    rows = torch.tensor([0, 0, 1, 1, 2, 2])
    tokens = torch.randint(2, TARGETS, (6, 7), generator=torch.Generator().manual_seed(2))
    tokens[:, :2] = tokens[rows * 2, :2]
    expected = model(source[rows], tokens)

    cache = model.start(source, 7)
    model.step(tokens[::2, :2], cache)
    cache.select(rows)
    keys = cache.cross[0].k
    steps = [model.step(tokens[:, 2:4], cache), model.step(tokens[:, 4:5], cache)]
    torch.testing.assert_close(torch.cat(steps, dim=1), expected[:, 2:5], rtol=1e-5, atol=1e-5)
    assert cache.cross[0].k is keys
    swapped = torch.tensor([1, 0, 5, 4])
    cache.select(swapped, torch.tensor([0, 2]))
    last = model.step(tokens[swapped, 5:], cache)
    torch.testing.assert_close(last, expected[swapped, 5:], rtol=1e-5, atol=1e-5)
