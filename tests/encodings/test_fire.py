"""FIRE against the fixture: where it is a function of distance, where not, and that it stays bounded."""

import pytest
import torch

from relformer.encodings import PositionalEncoding, Positions
from tests.encodings.calls import enliven, fixture, make, put, ready


def bias_of(encoding: PositionalEncoding, q: Positions, k: Positions) -> torch.Tensor:
    bias = encoding.bias(ready(encoding, q, k))
    assert bias is not None
    return bias[0]


def test_bias_of_the_oracle() -> None:
    """The causal form; the fixture has the pairs of the future too, normalised by the query."""
    case = fixture("oracle_only")
    encoding = make("fire", "decoder", heads=2, hidden=5, threshold=3.0)
    names = {"weights.0": "W1", "biases.0": "b1", "weights.1": "W2", "biases.1": "b2"}
    put(encoding, **{f"fire_mlp.{ours}": case[f"fire.{theirs}"] for ours, theirs in names.items()})
    put(encoding, fire_c=case["fire.c"])
    torch.testing.assert_close(bias_of(encoding, range(6), range(6)), case["fire.bias"], rtol=1e-5, atol=2e-5)
    last = bias_of(encoding, range(5, 6), range(6))
    torch.testing.assert_close(last, case["fire.bias"][:, 5:], rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("role", ["encoder", "decoder"])
def test_a_function_of_distance_up_to_the_threshold_and_not_beyond(role: str) -> None:
    encoding = make("fire", role, threshold=20.0)
    here = bias_of(encoding, range(8), range(8))
    torch.testing.assert_close(bias_of(encoding, range(12, 20), range(12, 20)), here, rtol=1e-5, atol=1e-5)
    assert (bias_of(encoding, range(30, 38), range(30, 38)) - here).abs().max() > 1e-3


@pytest.mark.parametrize("role", ["encoder", "decoder", "cross"])
def test_the_ratio_stays_within_one_at_any_length(role: str) -> None:
    """Read through a network that hands its first input on: ReLU(1 r) * 1."""
    encoding = make("fire", role, heads=1, hidden=1, signed=False, threshold=4.0)
    put(encoding, **{f"fire_mlp.{name}.{n}": torch.ones(1, 1) for name, n in (("weights", 0), ("weights", 1))})
    put(encoding, **{f"fire_mlp.biases.{n}": torch.zeros(1) for n in (0, 1)})
    ratio = bias_of(encoding, range(300), range(300))
    ratio = ratio.tril() if role == "decoder" else ratio
    assert 0.99 < ratio.max() <= 1
    assert (ratio >= 0).all()


def test_direction_reaches_an_encoder_unless_unsigned() -> None:
    signed, unsigned = make("fire", heads=8), make("fire", heads=8, signed=False)
    for encoding, same in ((signed, False), (unsigned, True)):
        bias = bias_of(encoding, range(6), range(6))
        assert torch.equal(bias, bias.mT) == same
    assert make("fire", "decoder").fire_mlp.weights[0].shape == (32, 1)


@pytest.mark.parametrize(("first", "moved"), [(0, True), (9, False)])
def test_c_is_learned_always_and_the_threshold_where_a_query_lies_below_it(first: int, moved: bool) -> None:
    encoding = make("fire", "decoder", threshold=7.0)
    bias_of(encoding, range(first, first + 5), range(first + 5)).square().sum().backward()
    for p, wanted in ((encoding.fire_c, True), (encoding.fire_stretch, moved)):
        assert p.grad is not None
        assert bool(p.grad != 0) == wanted


def test_negative_parameters_are_taken_by_their_size() -> None:
    encoding, other = make("fire"), make("fire")
    enliven(encoding)
    enliven(other)
    with torch.no_grad():
        other.fire_c.neg_()
        other.fire_stretch.neg_()
    assert torch.equal(bias_of(other, range(9), range(9)), bias_of(encoding, range(9), range(9)))
