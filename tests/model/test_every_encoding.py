"""Of every encoding: it trains, and a cache whose rows change places decodes the rows in their new places."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from relformer.encodings.span import Positions
from relformer.model import Cache
from relformer.model.attention import Memory
from tests.model.models import PLACES, batch, build, loss_of


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


def permuted(cache: Cache, order: Tensor) -> Cache:
    """The cache as a beam search reorders it."""

    def rows(memory: Memory) -> Memory:
        features = None if memory.features is None else memory.features[order]
        return Memory(memory.k[order], memory.v[order], features)

    def places(positions: Positions) -> Positions:
        return positions if isinstance(positions, range) or len(positions) == 1 else positions[order]

    encoded = replace(
        cache.encoded,
        states=cache.encoded.states[order],
        padding=cache.encoded.padding[order],
        positions=places(cache.encoded.positions),
    )
    own = [memory if memory is None else rows(memory) for memory in cache.own]
    cross = [rows(memory) for memory in cache.cross]
    return Cache(encoded, places(cache.positions), cache.planned, cross, own, cache.length)


@pytest.mark.parametrize("place", PLACES)
@torch.no_grad()
def test_permuting_the_cache_permutes_the_outputs(place: str) -> None:
    model, (source, target) = build(place), batch()
    cache = model.start(source, 10)
    model.step(target[:, :4], cache)
    order = torch.tensor([2, 0, 0])
    moved = permuted(cache, order)
    expected = model.step(target[:, 4:6], cache)[order]
    torch.testing.assert_close(model.step(target[order, 4:6], moved), expected, rtol=1e-5, atol=1e-5)
