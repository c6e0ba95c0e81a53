"""RoPE against three packages, and the algebra of rotations."""

import pytest
import torch
from torch import Tensor

from relformer.encodings import PositionalEncoding, Positions
from tests.encodings.calls import fixture, make, qkv, randn, ready


def rotated(encoding: PositionalEncoding, x: Tensor, positions: Positions) -> Tensor:
    return encoding.query(x, ready(encoding, positions, range(1)))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("rope_interleaved", {}),
        ("rope_half", {"layout": "half"}),
        ("rope_partial", {"fraction": 0.5}),
        ("rope_partial_half", {"fraction": 0.25, "layout": "half"}),
    ],
)
def test_rotations_of_the_packages(name: str, options: dict[str, object]) -> None:
    """The Llama case goes to position 300, where float32 angles are coarser."""
    case = fixture(name)
    positions = case.get("position_ids", torch.arange(6))[None]
    encoding = make("rope", head_dim=case["q"].shape[-1], **options)
    span = ready(encoding, positions, positions)
    tolerance = 1e-4 if int(positions.max()) > 100 else 2e-5
    torch.testing.assert_close(encoding.query(case["q"], span), case["q_out"], rtol=0, atol=tolerance)
    if "k" in case:
        torch.testing.assert_close(encoding.key(case["k"], span), case["k_out"], rtol=0, atol=tolerance)


def test_partial_case_has_the_packages_rotary_size() -> None:
    assert make("rope", head_dim=16, fraction=0.25).rotary_dim == int(fixture("rope_partial_half")["rotary_dim"])


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("first", [0, 100, 100_000])
def test_lengths_are_kept_at_any_position(layout: str, first: int) -> None:
    x = randn(2, 3, 6, 8)
    turned = rotated(make("rope", layout=layout), x, range(first, first + 6))
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))
    if first:
        assert (turned - x).abs().max() > 0.1


def test_position_zero_turns_nothing() -> None:
    x = randn(2, 3, 1, 8)
    torch.testing.assert_close(rotated(make("rope"), x, range(1)), x, rtol=0, atol=0)


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_products_depend_on_the_distance_alone(layout: str) -> None:
    encoding = make("rope", layout=layout)
    q, k, _ = qkv(1, 1)
    products = {
        (i, j): rotated(encoding, q, range(i, i + 1)) @ rotated(encoding, k, range(j, j + 1)).mT
        for i, j in ((5, 2), (40, 37), (2, 5))
    }
    torch.testing.assert_close(products[5, 2], products[40, 37], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(products[5, 2], products[2, 5], atol=1e-2)


@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_layouts_differ_by_a_permutation_of_channels(fraction: float) -> None:
    rotary = int(8 * fraction)
    order = torch.cat((torch.arange(0, rotary, 2), torch.arange(1, rotary, 2), torch.arange(rotary, 8)))
    x = randn(2, 3, 6, 8)
    interleaved = rotated(make("rope", fraction=fraction), x, range(10, 16))
    half = rotated(make("rope", fraction=fraction, layout="half"), x[..., order], range(10, 16))
    torch.testing.assert_close(half, interleaved[..., order])
    assert not torch.allclose(interleaved, rotated(make("rope", fraction=fraction, layout="half"), x, range(10, 16)))


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_a_fraction_leaves_the_tail_and_takes_frequencies_from_what_turns(layout: str) -> None:
    x = randn(2, 3, 6, 8)
    part = rotated(make("rope", fraction=0.5, layout=layout), x, range(10, 16))
    assert torch.equal(part[..., 4:], x[..., 4:])
    alone = rotated(make("rope", head_dim=4, layout=layout), x[..., :4], range(10, 16))
    torch.testing.assert_close(part[..., :4], alone)


def test_values_and_scale_are_untouched() -> None:
    encoding = make("rope")
    assert not encoding.overrides("value")
    assert encoding.scale(8) == 8**-0.5
    assert list(encoding.parameters()) == []


def test_bfloat16_inputs_turn_in_float32() -> None:
    encoding, x = make("rope"), randn(1, 3, 6, 8).bfloat16()
    exact = rotated(encoding, x.float(), range(4000, 4006))
    turned = rotated(encoding, x, range(4000, 4006))
    assert turned.dtype == torch.bfloat16
    torch.testing.assert_close(turned.float(), exact, rtol=2**-8, atol=1e-6)
