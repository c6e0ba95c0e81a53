"""PoPE against x-transformers, its doubled channels, and its phases."""

import math

import pytest
import torch
from torch.nn import functional as F

from relformer.attention import attend
from relformer.model import build_model
from tests.encodings.calls import enliven, fixture, make, put, qkv, ready
from tests.model.models import PAD, SOURCES, TARGETS, batch, build, config


def test_queries_and_keys_of_x_transformers() -> None:
    case, encoding = fixture("polar"), make("polar", heads=2)
    put(encoding, key_phase=case["param.learned_bias"][:, 0])
    span = ready(encoding, range(5), range(5))
    torch.testing.assert_close(encoding.query(case["q"], span), case["q_out"], rtol=0, atol=2e-5)
    torch.testing.assert_close(encoding.key(case["k"], span), case["k_out"], rtol=0, atol=2e-5)


@pytest.mark.parametrize("first", [0, 100, 100_000])
def test_magnitudes_are_the_content_at_any_position(first: int) -> None:
    encoding, (q, k, _) = make("polar"), qkv(6, 6)
    enliven(encoding)
    span = ready(encoding, range(first, first + 6), range(first, first + 6))
    for before, after in ((q, encoding.query(q, span)), (k, encoding.key(k, span))):
        assert after.shape[-1] == 16
        torch.testing.assert_close(after[..., :8].square() + after[..., 8:].square(), F.softplus(before).square())


def test_at_distance_zero_without_phases_content_alone_counts() -> None:
    encoding, (q, k, _) = make("polar"), qkv(1, 1)
    span = ready(encoding, range(70, 71), range(70, 71))
    product = encoding.query(q, span) @ encoding.key(k, span).mT
    torch.testing.assert_close(product, F.softplus(q) @ F.softplus(k).mT)


@pytest.mark.parametrize(("value", "clamped"), [(1.0, 0.0), (-7.0, -2 * math.pi), (-3.0, -3.0)])
def test_phases_are_clamped(value: float, clamped: float) -> None:
    one, other, (q, k, v) = make("polar"), make("polar"), qkv(6, 6)
    put(one, key_phase=torch.full((3, 8), value))
    put(other, key_phase=torch.full((3, 8), clamped))
    outputs = [attend(q, k, v, e, ready(e, range(6), range(6))) for e in (one, other)]
    torch.testing.assert_close(*outputs)
    outputs[0].sum().backward()
    assert one.key_phase.grad is not None
    assert bool((one.key_phase.grad != 0).any()) == (value == clamped)


def test_phases_start_at_zero_which_is_direction_blind_or_all_round() -> None:
    zeros, anywhere = make("polar"), make("polar", init="uniform", heads=50)
    assert (zeros.key_phase == 0).all()
    assert -2 * math.pi < anywhere.key_phase.min() < -6
    assert -0.3 < anywhere.key_phase.max() < 0
    q, k, _ = qkv(6, 6)
    for encoding, blind in ((zeros, True), (make("polar", init="uniform"), False)):
        span = ready(encoding, range(6), range(6))
        scores = encoding.query(q, span) @ encoding.key(k, span).mT
        mirrored = encoding.query(q.flip(2), span) @ encoding.key(k.flip(2), span).mT
        assert torch.allclose(scores, mirrored.flip(2, 3), atol=1e-4) == blind


@torch.no_grad()
def test_the_scale_is_that_of_the_projected_channels() -> None:
    encoding, (q, k, v) = make("polar"), qkv(6, 6)
    span = ready(encoding, range(6), range(6))
    weights = (encoding.query(q, span) @ encoding.key(k, span).mT * 8**-0.5).softmax(-1)
    for backend in ("dense", "sdpa", "auto"):
        torch.testing.assert_close(attend(q, k, v, encoding, span, backend=backend), weights @ v)


@torch.no_grad()
def test_the_cache_keeps_keys_twice_as_wide_as_values() -> None:
    model, (source, target) = build("polar@cross"), batch()
    cache = model.start(source, 10)
    model.step(target, cache)
    for memory in (*cache.own, *cache.cross):
        assert memory is not None
        assert (memory.k.shape[-1], memory.v.shape[-1]) == (16, 8)


def test_layers_share_the_phases() -> None:
    model = build_model(config("polar"), SOURCES, TARGETS, PAD)
    assert model.position_parameters() == 2 * 3 * 8
