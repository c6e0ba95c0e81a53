"""What the gate may read, and the table in other shapes: by distance and direction, and of low rank."""

from typing import Any

import pytest
import torch

from relformer.attention import attend
from relformer.attention.sdpa import serves
from tests.encodings.calls import enliven, fixture, make, pair_bias, put, qkv, ready


def test_bias_of_the_oracle() -> None:
    """Both tables; M = 4 for six tokens."""
    case = fixture("oracle_only")
    simple, gated = make("simple_bias", heads=2, max_length=4), make("gated_bias", heads=2, max_length=4)
    put(simple, distance_weight=case["simple.table_maxlen4"])
    put(gated, distance_weight=case["simple.table_maxlen4"], gate=case["gated.gate"])
    put(gated, log_scale=case["gated.logit_scale"])
    for name, encoding in (("simple", simple), ("gated", gated)):
        bias = pair_bias(encoding, range(6), range(6))[0]
        torch.testing.assert_close(bias, case[f"{name}.bias"], rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("options", [{}, {"scale": False}, {"split": "distance_direction"}, {"rank": 1}])
def test_a_gate_a_head_leaves_a_table(options: dict[str, Any]) -> None:
    encoding = make("gated_bias", **options)
    assert serves(encoding)
    assert encoding.acts("table")
    assert not encoding.acts("score")


@pytest.mark.parametrize("gate", ["content", "score"])
def test_other_gates_change_scores(gate: str) -> None:
    encoding = make("gated_bias", gate=gate)
    assert not serves(encoding)
    assert not encoding.acts("table")
    assert ready(encoding, range(3), range(3)).table is None


def test_a_gate_by_content_starts_as_a_gate_a_head() -> None:
    outputs = []
    for gate in ("head", "content"):
        encoding = make("gated_bias", gate=gate)
        outputs.append(attend(*qkv(5, 5), encoding, ready(encoding, range(5), range(5))))
    torch.testing.assert_close(outputs[1], outputs[0])


def test_a_gate_by_content_is_the_querys() -> None:
    encoding = make("gated_bias", gate="content")
    enliven(encoding)
    q, k, _ = qkv(5, 5)
    span = ready(encoding, range(5), range(5))
    nothing = torch.zeros(2, 3, 5, 5)
    before = encoding.score(nothing, q, k, None, span, None)
    ratio = encoding.score(nothing, q * 2, k, None, span, None) / before
    assert ((ratio - ratio[..., :1]).abs() < 1e-4).all()  # one factor a query
    assert (ratio[..., 0] - 1).abs().max() > 0.1
    assert torch.equal(encoding.score(nothing, q, k * 2, None, span, None), before)


def test_split_is_even_but_for_a_constant_a_direction() -> None:
    encoding = make("gated_bias", split="distance_direction", max_length=9)
    enliven(encoding)
    bias = pair_bias(encoding, range(9), range(9))[0]
    odd = (bias - bias.mT)[:, 1:, 0]
    torch.testing.assert_close(odd, odd[:, :1].expand_as(odd), rtol=1e-4, atol=1e-6)
    assert odd.abs().min() > 1e-3
    assert set(dict(encoding.named_parameters())) == {"magnitude_weight", "direction_weight", "gate", "log_scale"}


def test_a_decoder_has_one_direction() -> None:
    plain, split = (make("gated_bias", "decoder", split=s) for s in ("none", "distance_direction"))
    put(split, distance_weight=plain.distance_weight)
    assert torch.equal(pair_bias(split, range(5), range(5)), pair_bias(plain, range(5), range(5)))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_rank_bounds_the_rank_of_the_table(rank: int) -> None:
    encoding = make("gated_bias", rank=rank, max_length=20)
    table = encoding.table(torch.arange(-19, 20)).double()
    assert torch.linalg.matrix_rank(table, rtol=1e-4) == rank
    with pytest.raises(AttributeError):
        _ = encoding.distance_weight


def test_a_table_of_low_rank_starts_as_wide_as_a_full_one() -> None:
    full, low = (make("gated_bias", heads=64, rank=rank) for rank in (None, 16))
    wide, narrow = (pair_bias(e, range(512), range(512)).detach().std() for e in (full, low))
    assert float(narrow / wide) == pytest.approx(1, abs=0.2)
