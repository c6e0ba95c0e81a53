"""Sandwich against the fixture, and the shape of its bias."""

import pytest
import torch

from tests.encodings.calls import fixture, make, pair_bias
from tests.encodings.oracles import dot, wave


@pytest.mark.parametrize("first", [0, 1])
def test_bias_of_the_oracle(first: int) -> None:
    bias = pair_bias(make("sandwich", heads=4, dim=16, first=first), range(6), range(6))[0]
    torch.testing.assert_close(bias, fixture("oracle_only")[f"sandwich.dim16_first{first}"], rtol=1e-5, atol=2e-5)


def test_bias_is_the_inner_product_of_two_sinusoids() -> None:
    bias = pair_bias(make("sandwich", heads=2, dim=8), range(7), range(7))[0]
    rows = [wave(t, 8, "interleaved") for t in range(7)]
    for h in (0, 1):
        for i in range(7):
            for j in range(7):
                assert float(bias[h, i, j]) == pytest.approx((dot(rows[i], rows[j]) - 4) * (h + 1) ** -1 / 4, abs=1e-5)


def test_bias_is_zero_at_home_negative_elsewhere_and_symmetric() -> None:
    bias = pair_bias(make("sandwich"), range(200), range(200))[0]
    assert (bias.diagonal(dim1=1, dim2=2) == 0).all()
    assert (bias <= 0).all()
    assert torch.equal(bias, bias.mT)
    assert (bias[:, 199].diff() < 0).any()  # not steadily
    torch.testing.assert_close(bias[0], 3 * bias[2])


def test_the_size_is_a_constant_of_the_method() -> None:
    small, large = (make("sandwich", head_dim=size) for size in (8, 16))
    assert torch.equal(pair_bias(small, range(9), range(9)), pair_bias(large, range(9), range(9)))
    assert list(small.parameters()) == []
