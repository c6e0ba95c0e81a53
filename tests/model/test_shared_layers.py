"""One layer's weights for all layers of a stack: caches by place, encodings, parameters, and what is watched."""

from typing import Any

import pytest
import torch
from torch.nn.utils import parameters_to_vector

from relformer.analysis.trace import trace_calls
from relformer.model import Seq2Seq
from relformer.registry import encodings
from tests.model.models import PLACES, batch, build, check_cache, check_causal, check_padding

SHARED: dict[str, Any] = {"share_layers": True, "encoder_layers": 3, "decoder_layers": 3}


def unshared(model: Seq2Seq, place: str, **options: Any) -> Seq2Seq:
    """The same function by layers of their own, each a copy."""
    twin = build(place, model={**SHARED, "share_layers": False}, **options)
    twin.load_state_dict(model.state_dict(), strict=True)
    return twin


@pytest.mark.parametrize("place", PLACES)
@torch.no_grad()
def test_every_encoding_in_shared_layers(place: str) -> None:
    model = build(place, model=SHARED)
    check_cache(model)
    check_causal(model)
    check_padding(model)


@pytest.mark.parametrize("place", ["t5@cross", "alibi", "sinusoidal"])
@torch.no_grad()
def test_it_is_a_stack_of_equal_layers(place: str) -> None:
    model, (source, target) = build(place, model=SHARED), batch()
    assert not torch.allclose(model(source, target), build(place)(source, target), atol=1e-2)
    torch.testing.assert_close(unshared(model, place)(source, target), model(source, target), rtol=0, atol=0)


@pytest.mark.parametrize("place", PLACES)
def test_its_parameters_are_those_of_one_layer(place: str) -> None:
    """The same number, names and start as a model of one layer, whatever the encoding publishes; depth costs none."""
    own = encodings[place.partition("@")[0]].cls
    name = place.partition("@")[0]
    first = dict(build(place, model={"encoder_layers": 1, "decoder_layers": 1}).named_parameters())
    shared = dict(build(place, model=SHARED).named_parameters())
    if own.own_layer or name == "deberta":  # its absolute_last counts layers
        assert first.keys() <= shared.keys()
    else:
        assert first.keys() == shared.keys()
        one, other = (parameters_to_vector([p for n, p in m.items() if "norm" not in n]) for m in (first, shared))
        assert torch.equal(one, other)


def test_an_encoding_may_still_have_a_module_a_layer() -> None:
    counts = [build("shaw", model=SHARED, share=share).position_parameters() for share in (None, "stack", "layer")]
    assert counts[0] == counts[1] == counts[2] / 3
    check_cache(build("shaw", model=SHARED, share="layer"))
    check_cache(build("shaw", model=SHARED, layers=[1]))


@torch.no_grad()
def test_every_place_keeps_keys_of_its_own() -> None:
    model, (source, target) = build("rope", model=SHARED), batch()
    cache = model.start(source, 10)
    model.step(target[:, :1], cache)
    keys = [memory.k for memory in cache.own]
    assert len({k.data_ptr() for k in keys}) == 3
    assert not any(torch.allclose(keys[n], keys[n + 1], atol=1e-3) for n in (0, 1))
    assert not torch.equal(cache.own[0].k, cache.own[1].k)


def test_gradients_of_all_places_meet() -> None:
    model, (source, target) = build("t5", model=SHARED), batch()
    twin = unshared(model, "t5")
    for each in (model, twin):
        each(source, target).square().mean().backward()
    for name, p in model.encoder.layers[0].named_parameters():
        total = sum(layer.get_parameter(name).grad for layer in twin.encoder.layers)  # type: ignore[misc]
        torch.testing.assert_close(p.grad, total, rtol=1e-4, atol=1e-7)


@torch.no_grad()
def test_a_trace_tells_the_places_apart() -> None:
    model, (source, target) = build("t5", model=SHARED), batch()
    found = trace_calls(model, source[:1], target[:1])
    assert [(call.slot, call.layer) for call in found[:3]] == [("encoder", n) for n in range(3)]
    expected = trace_calls(unshared(model, "t5"), source[:1], target[:1])
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours.slot, ours.layer) == (theirs.slot, theirs.layer)
        torch.testing.assert_close(ours.content, theirs.content)
        torch.testing.assert_close(ours.position, theirs.position)
