"""Hooks that few or no registered encodings use, through toy encodings: the same promises hold."""

import pytest
import torch
from torch import Tensor

from relformer.attention import attend
from relformer.encodings import PositionalEncoding, Positions, Role, Span, as_tensor, draw
from relformer.encodings.none import NoPositions
from relformer.model import EncoderDecoder, ModelOptions, Seq2Seq
from relformer.model.building import build_stacks
from relformer.model.slot import Slot
from tests.encodings.calls import qkv, ready
from tests.model.models import (
    PAD,
    SIZES,
    SOURCES,
    TARGETS,
    batch,
    check_cache,
    check_causal,
    check_padding,
    loss_of,
    stepwise,
)
from tests.model.toys import (
    TOYS,
    BiasAndTable,
    FarWindow,
    LengthScaled,
    PositionBias,
    RawKeys,
    SampledRoPE,
    Window,
    drawn,
)

PLACES = [pytest.param(toy, place, id=f"{toy.__name__}-{place}") for toy in TOYS for place in ("self", "cross")]


def build(toy: type[PositionalEncoding], place: str, backend: str = "auto") -> Seq2Seq:
    """The toy in both self-attention slots, or in the cross slot too."""
    slots: dict[Role, Slot] = {
        role: Slot([toy() if role != "cross" or place == "cross" else NoPositions()], [0, 0])
        for role in ("encoder", "decoder", "cross")
    }
    options = ModelOptions(**SIZES)
    model = EncoderDecoder(options, build_stacks(options, slots, backend), SOURCES, TARGETS, PAD)
    draw(model, 1)
    return model.eval()


@pytest.mark.parametrize(("toy", "place"), PLACES)
def test_cached_is_uncached(toy: type[PositionalEncoding], place: str) -> None:
    check_cache(build(toy, place))


@pytest.mark.parametrize(("toy", "place"), PLACES)
def test_padding_changes_nothing(toy: type[PositionalEncoding], place: str) -> None:
    check_padding(build(toy, place))


@pytest.mark.parametrize(("toy", "place"), PLACES)
def test_outputs_never_see_later_tokens(toy: type[PositionalEncoding], place: str) -> None:
    check_causal(build(toy, place))


@pytest.mark.parametrize(("toy", "place"), PLACES)
@torch.no_grad()
def test_the_toy_acts(toy: type[PositionalEncoding], place: str) -> None:
    other = build(NoPositions, "self") if place == "self" else build(toy, "self")
    gap = (build(toy, place)(*batch()) - other(*batch())).abs().max()
    assert gap > 1e-3


@pytest.mark.parametrize(("toy", "place"), PLACES)
def test_gradients_are_finite_and_reach_every_parameter(toy: type[PositionalEncoding], place: str) -> None:
    model = build(toy, place)
    loss_of(model, *batch()).backward()
    for name, p in model.named_parameters():
        assert p.grad is not None, name
        assert p.grad.isfinite().all(), name
        assert (p.grad != 0).any(), name


def test_the_planned_length_is_known_in_every_step() -> None:
    check_cache(build(LengthScaled, "self"))
    model, (source, target) = build(LengthScaled, "self"), batch()
    with torch.no_grad():
        short, long = (model.step(target, model.start(source, planned)) for planned in (10, 20))
    assert (short - long).abs().max() > 1e-2


@pytest.mark.parametrize("toy", [PositionBias, BiasAndTable, Window, FarWindow, SampledRoPE])
def test_backends_agree(toy: type[PositionalEncoding]) -> None:
    found = []
    for backend in ("dense", "sdpa", "auto"):
        model = build(toy, "cross", backend)
        loss_of(model, *batch()).backward()
        found.append((model(*batch()), [p.grad for p in model.parameters()]))
    for logits, gradients in found[1:]:
        torch.testing.assert_close(logits, found[0][0], rtol=1e-5, atol=1e-5)
        for got, wanted in zip(gradients, found[0][1], strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("backend", ["dense", "sdpa"])
@torch.no_grad()
def test_a_window_hides_what_lies_outside(backend: str) -> None:
    q, k, v = qkv(7, 7)
    encoding = Window()
    span = ready(encoding, range(7), range(7))
    plain = attend(q, k, v, encoding, span, backend=backend)
    for j in range(7):
        louder = v.clone()
        louder[:, :, j] += 1.0
        moved = (attend(q, k, louder, encoding, span, backend=backend) - plain).abs().amax((0, 1, 3)) > 1e-6
        assert moved.tolist() == [-1 <= i - j <= 3 for i in range(7)]


@pytest.mark.parametrize("positions", [range(3, 9), drawn(6, 2)], ids=["range", "sampled"])
@torch.no_grad()
def test_table_and_bias_add_up(positions: Positions) -> None:
    q, k, v = qkv(6, 6)
    encoding = BiasAndTable()
    span = ready(encoding, positions, positions)
    distance = as_tensor(positions, q.device)[:, None, :, None] - as_tensor(positions, q.device)[:, None, None, :]
    slopes = torch.tensor([2**-4, 2**-8, 2**-2])[:, None, None]
    logits = q @ k.mT / 8**0.5 - slopes * distance.abs() + encoding.bias(span)
    torch.testing.assert_close(attend(q, k, v, encoding, span), logits.softmax(-1) @ v)


def test_a_sampler_draws_once_for_the_whole_generation() -> None:
    calls: list[tuple[int, int]] = []

    class Watched(SampledRoPE):
        def positions(self, length: int, batch: int, device: torch.device) -> Tensor:
            calls.append((length, batch))
            drawn = super().positions(length, batch, device)
            assert isinstance(drawn, Tensor)
            return drawn

    source, target = batch()
    stepwise(build(Watched, "self"), source, target, [1] * 10)
    assert calls == [(9, 3), (10, 3)]


def test_raw_keys_are_what_the_cache_holds() -> None:
    model, (source, target) = build(RawKeys, "self"), batch()
    with torch.no_grad():
        cache = model.start(source, 10)
        model.step(target, cache)
        layer = model.decoder.layers[0]
        states = layer.attention_branch.norm(model.target_embedding(target) * model.embed_scale)
        raw = layer.attention.split(layer.attention.key(states))
    memory = cache.own[0]
    assert memory is not None
    torch.testing.assert_close(memory.k, raw)


def keys_and_scores(keys: str) -> type[PositionalEncoding]:
    def key(self: PositionalEncoding, k: Tensor, span: Span) -> Tensor:
        return k

    def score(self: PositionalEncoding, scores: Tensor, *rest: object) -> Tensor:
        return scores

    return type("Both", (PositionalEncoding,), {"keys": keys, "key": key, "score": score})


def test_a_class_that_changes_keys_and_reads_raw_ones_must_cache_raw_ones() -> None:
    with pytest.raises(TypeError, match=r"Both changes keys and reads raw keys in score: set keys = 'before'"):
        keys_and_scores("after")
    assert keys_and_scores("before").keys == "before"
    with pytest.raises(TypeError, match="set keys = 'before'"):
        type("Inherits", (RawKeys,), {"keys": "after"})


def test_hooks_are_told_by_what_a_class_overrides() -> None:
    hooks = ("embed", "positions", "query", "key", "table", "bias", "visible", "features", "score", "value")
    assert not any(PositionalEncoding.overrides(hook) for hook in hooks)
    assert [hook for hook in hooks if BiasAndTable.overrides(hook)] == ["table", "bias"]
    assert [hook for hook in hooks if RawKeys.overrides(hook)] == ["query", "key", "score"]
