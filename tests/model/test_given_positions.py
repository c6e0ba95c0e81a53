"""Positions that come with the source: counting them out changes nothing, stretching them does, padding has none."""

import pytest
import torch

from tests.model.models import PLACES, batch, build
from tests.model.models import build as built

GIVEN = [place for place in PLACES if not build(place).slots["encoder"].first.acts("positions")]


@pytest.mark.parametrize("place", GIVEN)
@torch.no_grad()
def test_counting_is_what_happens_anyway(place: str) -> None:
    model, (source, target) = built(place), batch()
    positions = torch.arange(9).repeat(3, 1)
    torch.testing.assert_close(model(source, target, positions), model(source, target), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "place", ["sinusoidal", "learned", "t5", "alibi", "rope@cross", "shaw", "transformer_xl", "fire"]
)
@torch.no_grad()
def test_rows_have_positions_of_their_own(place: str) -> None:
    model, (source, target) = built(place), batch()
    stretched = torch.stack([torch.arange(9), torch.arange(9) * 2, torch.arange(9) + torch.arange(9) // 2])
    together = model(source, target, stretched)
    plain = model(source, target)
    torch.testing.assert_close(together[0], plain[0], rtol=1e-5, atol=1e-5)
    for row in (1, 2):
        alone = model(source[row : row + 1], target[row : row + 1], stretched[row : row + 1])
        torch.testing.assert_close(together[row], alone[0], rtol=1e-5, atol=1e-5)
        if place != "fire":
            assert (together[row] - plain[row]).abs().max() > 1e-3
