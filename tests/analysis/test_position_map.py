"""The position part against exact answers: tables come back, rotary gives its cosines, content gives nothing."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from relformer.analysis.position_map import position_part, position_parts, profile
from relformer.analysis.probe import Probe
from relformer.attention import attend
from relformer.attention.call import Call
from relformer.encodings import PositionalEncoding
from relformer.encodings.base import Role
from relformer.model import Seq2Seq
from tests.encodings.calls import HEAD_DIM, HEADS, enliven, make, randn, ready
from tests.model.models import PLACES, SOURCES, TARGETS, build

LENGTH = 12


def probe(sentences: int = 8, length: int = LENGTH) -> Probe:
    generator = torch.Generator().manual_seed(4)
    source = torch.randint(3, SOURCES, (sentences, length), generator=generator)
    return Probe(source, torch.randint(3, TARGETS, (sentences, length), generator=generator))


def call(encoding: PositionalEncoding, q: torch.Tensor, k: torch.Tensor, causal: bool = False) -> Call:
    """What an observer is shown of one call at positions 0 to LENGTH - 1."""
    seen: list[Call] = []
    span = ready(encoding, range(LENGTH), range(LENGTH), LENGTH)
    key = encoding.key(k, span)
    attend(q, key, k, encoding, span, causal=causal, keys_done=True, observer=seen.append)
    (only,) = seen
    return only


def row_centred(x: torch.Tensor, seen: torch.Tensor) -> np.ndarray:
    """With mean 0 over what each row sees, by a loop."""
    out = np.full(x.shape, np.nan, np.float32)
    for h in range(x.shape[0]):
        for i in range(x.shape[1]):
            keys = seen[i].nonzero()[:, 0]
            out[h, i, keys] = x[h, i, keys] - x[h, i, keys].mean()
    return out


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", ["t5", "alibi", "kerple_log", "simple_bias"])
def test_a_table_comes_back(name: str, causal: bool) -> None:
    encoding = make(name, "decoder" if causal else "encoder")
    enliven(encoding)
    silent = torch.zeros(4, HEADS, LENGTH, HEAD_DIM)
    maps, r2 = position_part(call(encoding, silent, silent, causal))
    distance = torch.arange(1 - LENGTH, LENGTH)
    table = encoding.table(distance)
    assert table is not None
    pairs = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)
    seen = pairs >= 0 if causal else torch.ones_like(pairs, dtype=torch.bool)
    expected = row_centred(table.detach()[:, pairs + LENGTH - 1], seen)
    np.testing.assert_allclose(maps.detach().numpy(), expected, atol=1e-5)
    np.testing.assert_allclose(r2.detach().numpy(), 1.0)
    found = profile(maps.detach().numpy())
    there = (distance >= 0).numpy() if causal else np.ones(len(distance), bool)
    assert np.isnan(found[:, ~there]).all()
    wanted = table.detach().numpy()[:, there]
    np.testing.assert_allclose(found[:, there], wanted - wanted.mean(1, keepdims=True), atol=1e-4)


def test_content_does_not_hide_a_table() -> None:
    """With random queries and keys the table is found within its error, and R² says how much of the logits it is."""
    encoding = make("alibi", "encoder")
    q, k = randn(2000, HEADS, LENGTH, HEAD_DIM, seed=1), randn(2000, HEADS, LENGTH, HEAD_DIM, seed=2)
    maps, r2 = position_part(call(encoding, q, k))
    exact, _ = position_part(call(encoding, q[:2] * 0, k[:2] * 0))
    assert (maps - exact).abs().max() < 5 / math.sqrt(2000)
    signal = exact.square().mean((-2, -1))
    noise = 1 - 1 / LENGTH  # q·k / sqrt(D) of unit normals has variance 1, of which the row's mean takes one L-th
    np.testing.assert_allclose(r2, signal / (signal + noise), atol=0.01)


def test_few_sentences_do_not_flatter_r2() -> None:
    encoding = make("none")
    r2 = torch.stack(
        [
            position_part(call(encoding, *(randn(4, HEADS, LENGTH, HEAD_DIM, seed=2 * n + s) for s in (0, 1))))[1]
            for n in range(50)
        ]
    )
    assert abs(float(r2.mean())) < 0.01


def test_rotary_with_constant_queries_and_keys_is_a_sum_of_cosines() -> None:
    encoding = make("rope")
    ones = torch.ones(2, HEADS, LENGTH, HEAD_DIM)
    maps, r2 = position_part(call(encoding, ones, ones))
    angles = [10000.0 ** (-2 * n / HEAD_DIM) for n in range(HEAD_DIM // 2)]
    pairs = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)
    cosines = sum(2 * torch.cos(pairs * angle) for angle in angles) / math.sqrt(HEAD_DIM)
    expected = row_centred(cosines.expand(HEADS, -1, -1), torch.ones_like(pairs, dtype=torch.bool))  # type: ignore[union-attr]
    np.testing.assert_allclose(maps.numpy(), expected, atol=1e-5)
    np.testing.assert_allclose(r2.numpy(), 1.0, atol=1e-5)
    by_loop = np.array(
        [sum(2 * math.cos(d * a) for a in angles) / math.sqrt(HEAD_DIM) for d in range(1 - LENGTH, LENGTH)]
    )
    np.testing.assert_allclose(profile(maps.numpy())[0], by_loop - by_loop.mean(), atol=1e-4)


def test_a_token_that_likes_itself_is_content() -> None:
    """With equal queries and keys the logits' diagonal stands out in every sentence, and not in the map."""
    q = 2 * randn(400, HEADS, LENGTH, HEAD_DIM, seed=3)
    one = call(make("none"), q, q)
    assert one.logits().mean(0).diagonal(dim1=-2, dim2=-1).min() > 8
    assert position_part(one)[0].abs().max() < 1.5


@pytest.mark.parametrize("place", PLACES)
def test_every_encoding_in_every_slot(place: str) -> None:
    model = build(place)
    parts = position_parts(model, probe())
    layers: dict[Role, int] = {"encoder": 2, "decoder": 2, "cross": 2}
    for role, number in layers.items():
        part = parts[role]
        assert part.maps.shape == (number, 3, LENGTH, LENGTH)
        hidden = np.isnan(part.maps[0, 0])
        if role == "decoder":
            assert hidden[np.triu_indices(LENGTH, 1)].all()
        assert not hidden.all(1).any() or place.startswith("window")
        np.testing.assert_allclose(np.nansum(part.maps, -1), 0, atol=2e-3)
        assert np.isfinite(part.profile[:, :, part.distance == 0]).all()
        assert (part.r2[np.isfinite(part.r2)] < 1 + 1e-5).all()
    assert not any(attention.observer for attention in model.modules() if hasattr(attention, "observer"))
    slots = ["encoder", "decoder", "cross"] if place.endswith("@cross") else ["encoder", "decoder"]
    acting: list[Any] = [
        role for role in slots if type(model.slots[role].first).__name__ not in ("NoPositions", "Window")
    ]
    for role in acting:
        assert np.nanmax(np.abs(parts[role].maps)) > 0.05, role


def test_measuring_leaves_no_trace() -> None:
    model: Seq2Seq = build("randomized", rows="sample").train()
    state = torch.get_rng_state()
    position_parts(model, probe())
    assert torch.equal(torch.get_rng_state(), state)
    assert model.training and all(p.grad is None for p in model.parameters())


def test_own_tables_are_given_where_nothing_else_acts() -> None:
    parts = position_parts(build("t5"), probe())
    assert parts["encoder"].table is not None and parts["encoder"].table.shape == (1, 3, 2 * LENGTH - 1)
    assert parts["cross"].table is None
    assert position_parts(build("shaw"), probe())["encoder"].table is None
