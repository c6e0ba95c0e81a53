"""Forgetting attention against x-transformers: sums of gates on the way, in both directions."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from relformer.encodings import PositionalEncoding, Positions
from relformer.errors import UserError
from relformer.model import ModelOptions
from relformer.model.slot import build_slot
from tests.encodings.calls import WIDTH, enliven, fixture, make, put, randn, ready


def added(encoding: PositionalEncoding, x: Tensor, q: Positions, k: Positions) -> Tensor:
    """What the encoding adds to the logits."""
    keys = encoding.features(x)
    assert keys is not None
    span = ready(encoding, q, k)
    nothing = keys.new_zeros(len(x), keys.shape[1], span.relative.pairs.shape[1], keys.shape[2])
    return encoding.score(nothing, nothing, nothing, keys, span, None)


def test_gates_and_bias_of_x_transformers() -> None:
    case = fixture("forgetting_gate")
    encoding = make("forgetting", "decoder", heads=2, head_dim=4)
    put(encoding, forget_weight=case["param.to_forget_gates.0.weight"])
    put(encoding, forget_bias=case["param.to_forget_gates.0.bias"])
    gates = encoding.features(case["x"])
    assert gates is not None
    torch.testing.assert_close(gates[..., 0], case["log_gates"], rtol=0, atol=2e-5)
    bias = added(encoding, case["x"], range(6), range(6))
    torch.testing.assert_close(bias, case["bias"].tril(), rtol=0, atol=2e-5)
    last = added(encoding, case["x"], range(4, 6), range(6))
    torch.testing.assert_close(last, case["bias"].tril()[:, :, 4:], rtol=0, atol=2e-5)


def test_the_future_is_the_mirror_image_with_gates_of_its_own() -> None:
    """Swapping the two sets of gates and reversing the sequence transposes nothing but the order."""
    encoding, other = make("forgetting"), make("forgetting")
    enliven(encoding)
    swapped = {name: torch.cat((p[3:], p[:3])) for name, p in encoding.named_parameters()}
    put(other, **swapped)
    x = randn(2, 7, WIDTH)
    here, there = added(encoding, x, range(7), range(7)), added(other, x.flip(1), range(7), range(7))
    torch.testing.assert_close(there.flip(-1, -2), here, rtol=1e-5, atol=1e-5)
    assert (here.diagonal(dim1=-2, dim2=-1).abs() < 1e-6).all()
    assert (here[..., 0, 1:] < 0).all()
    assert (here[..., 6, :6] < 0).all()


def test_gates_of_one_value_are_alibi_with_that_slope() -> None:
    encoding = make("forgetting", gate_bias=0.0)
    with torch.no_grad():
        encoding.forget_weight.zero_()
    i = torch.arange(6.0)
    wanted = -torch.tensor(2.0).log() * (i[:, None] - i).abs()
    torch.testing.assert_close(
        added(encoding, randn(1, 6, WIDTH), range(6), range(6)), wanted.expand(1, 3, 6, 6), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("role", ["encoder", "decoder"])
def test_positions_only_order_the_keys(role: str) -> None:
    encoding, x = make("forgetting", role), randn(1, 4, WIDTH)
    spread = torch.tensor([[0, 3, 4, 19]])
    assert torch.equal(added(encoding, x, spread, spread), added(encoding, x, range(4), range(4)))


def test_starts_nearly_open() -> None:
    encoding = make("forgetting")
    gates = encoding.features(torch.zeros(1, 1, WIDTH))
    assert gates is not None
    torch.testing.assert_close(gates, F.logsigmoid(torch.full((1, 3, 1, 2), 5.0)))


def test_gates_are_made_in_float32() -> None:
    encoding, x = make("forgetting"), randn(1, 5, WIDTH)
    exact = encoding.features(x)
    with torch.autocast("cpu", torch.bfloat16):
        under = encoding.features(x)
    assert exact is not None
    assert under is not None
    assert torch.equal(under, exact)


def test_cross_attention_is_refused() -> None:
    with pytest.raises(UserError, match=r"cross_encoding=forgetting can't serve.*use cross_encoding=none"):
        build_slot({"name": "forgetting"}, "cross", "cross_encoding", ModelOptions(width=24, heads=3))


def test_without_the_keys_inputs_it_says_what_is_missing() -> None:
    encoding = make("forgetting")
    x = randn(1, 3, 4, 4)
    with pytest.raises(ValueError, match="`features`"):
        encoding.score(x, x, x, None, ready(encoding, range(4), range(4)), None)
