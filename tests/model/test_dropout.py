"""Dropout by bytes: its probability, its expectation, its gradient, and its stream."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from relformer.model.dropout import dropout


def dropped(rate: float, *shape: int, seed: int = 0) -> Tensor:
    torch.manual_seed(seed)
    return dropout(torch.ones(shape), rate)


@pytest.mark.parametrize(("rate", "level"), [(0.1, 26), (0.5, 128), (0.002, 1), (0.3, 77), (0.997, 255)])
def test_the_probability_is_rounded_and_the_scale_is_exact(rate: float, level: int) -> None:
    found = dropped(rate, 1000, 1000)
    kept = 1 - level / 256
    assert sorted(found.unique().tolist()) == [0.0, pytest.approx(1 / kept)]
    error = (kept * (1 - kept) / 1e6) ** 0.5
    assert float(found.count_nonzero()) / 1e6 == pytest.approx(kept, abs=5 * error)
    assert float(found.mean()) == pytest.approx(1, abs=5 * error / kept)


def test_each_of_the_eight_bytes_of_a_draw_is_uniform() -> None:
    """torch's `random_()` leaves the sign bit of an integer 0, which would double the rate of every eighth element."""
    kept = dropped(0.25, 100_000, 8).ne(0).double()
    assert (kept.mean(0) - 0.75).abs().max() < 5 * (0.25 * 0.75 / 1e5) ** 0.5
    assert (torch.corrcoef(kept.T) - torch.eye(8)).abs().max() < 5 / 1e5**0.5


@pytest.mark.parametrize("rate", [0.0, 0.001, 0.9999, 1.0])
def test_rates_that_bytes_can_not_tell_from_none_or_all_are_torchs(rate: float) -> None:
    x = torch.randn(50, 50)
    torch.manual_seed(3)
    expected = F.dropout(x, rate)
    torch.manual_seed(3)
    assert torch.equal(dropout(x, rate), expected)


@pytest.mark.parametrize("shape", [(7, 5), (1,), (0, 4), (3, 8)])
def test_the_gradient_is_that_of_the_mask(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    mask = dropped(0.4, *shape).double()
    torch.manual_seed(0)
    out = dropout(x, 0.4)
    torch.testing.assert_close(out, x * mask, rtol=1e-6, atol=0)
    (gradient,) = torch.autograd.grad(out.square().sum(), x)
    torch.testing.assert_close(gradient, 2 * x.detach() * mask.square(), rtol=1e-6, atol=0)


def test_layouts_and_types_are_kept() -> None:
    torch.manual_seed(0)
    assert dropout(torch.randn(4, 6, dtype=torch.bfloat16), 0.5).dtype == torch.bfloat16
    flat = dropped(0.5, 24)
    torch.manual_seed(0)
    assert torch.equal(dropout(torch.ones(6, 4).T, 0.5).flatten(), flat)


def test_the_stream_is_that_of_the_global_generator() -> None:
    assert torch.equal(dropped(0.3, 40, 40), dropped(0.3, 40, 40))
    assert not torch.equal(dropped(0.3, 40, 40), dropped(0.3, 40, 40, seed=1))
    torch.manual_seed(0)
    state = torch.get_rng_state()
    first, second = (dropout(torch.ones(99), 0.5) for _ in range(2))
    assert not torch.equal(first, second)
    torch.set_rng_state(state)
    assert torch.equal(dropout(torch.ones(99), 0.5), first) and torch.equal(dropout(torch.ones(99), 0.5), second)
