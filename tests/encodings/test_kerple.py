"""KERPLE: the kernels of the fixture, where parameters start and stay, and what is left out of the gradient."""

import math

import pytest
import torch

from relformer.encodings import draw
from relformer.encodings.alibi import published_slopes
from tests.encodings.calls import enliven, fixture, make, pair_bias, put

NAMES = ("kerple_log", "kerple_power")


def inverse_softplus(y: torch.Tensor) -> torch.Tensor:
    return y.expm1().log()


@pytest.mark.parametrize("role", ["encoder", "decoder"])
def test_kernels_of_the_oracle(role: str) -> None:
    case = fixture("oracle_only")
    r1, r2 = inverse_softplus(case["kerple.r1"]), case["kerple.r2"]
    log, power = (make(name, role, heads=2) for name in NAMES)
    put(log, **{"past.kerple_log_r1": r1, "past.kerple_log_r2": inverse_softplus(r2)})
    put(power, **{"past.kerple_power_r1": r1, "past.kerple_power_r2": torch.logit(r2 / 2)})
    for name, encoding in (("log", log), ("power", power)):
        bias = pair_bias(encoding, range(6), range(6))[0]
        torch.testing.assert_close(bias, case[f"kerple.{name}"], rtol=1e-5, atol=2e-5)


def test_power_of_one_is_alibi() -> None:
    encoding = make("kerple_power", heads=4)
    slopes = inverse_softplus(torch.tensor(published_slopes(4, 8.0)))
    put(encoding, **{"past.kerple_power_r1": slopes, "past.kerple_power_r2": torch.zeros(4)})
    alibi = pair_bias(make("alibi", heads=4), range(9), range(9))
    torch.testing.assert_close(pair_bias(encoding, range(9), range(9)), alibi, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "most"), [("kerple_log", (2.0, 1.0)), ("kerple_power", (1.0, 2.0))])
def test_parameters_start_uniformly_within_their_range(name: str, most: tuple[float, float]) -> None:
    encoding = make(name, heads=4000)
    draw(encoding, seed=0)
    first, second = (p.detach() for p in encoding.parameters())
    r1 = torch.nn.functional.softplus(first)
    r2 = 2 * second.sigmoid() if name == "kerple_power" else torch.nn.functional.softplus(second)
    for values, end in ((r1, most[0]), (r2, most[1])):
        assert values.min() >= 0.0099
        assert values.max() <= end
        assert values.mean() == pytest.approx(end / 2, rel=0.05)
        assert values.std() == pytest.approx(end / math.sqrt(12), rel=0.05)


@pytest.mark.parametrize("name", NAMES)
def test_bias_is_zero_at_home_symmetric_and_falls_wherever_the_parameters_go(name: str) -> None:
    encoding = make(name)
    enliven(encoding, std=3.0)
    bias = pair_bias(encoding, range(30), range(30))[0]
    assert (bias.diagonal(dim1=1, dim2=2) == 0).all()
    assert torch.equal(bias, bias.mT)
    assert (bias[:, 29].diff() > 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_finite_at_distance_zero(name: str) -> None:
    encoding = make(name)
    pair_bias(encoding, range(4), range(4)).sum().backward()
    for p in encoding.parameters():
        assert p.grad is not None
        assert p.grad.isfinite().all()
        assert (p.grad != 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_past_and_future_can_be_split_where_there_is_a_future(name: str) -> None:
    encoding = make(name, split=True)
    enliven(encoding)
    bias = pair_bias(encoding, range(5), range(5))[0]
    assert (bias != bias.mT).any(0).triu(1).sum() == 10
    assert len(list(make(name, "decoder", split=True).parameters())) == 2
