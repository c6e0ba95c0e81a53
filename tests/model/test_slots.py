"""Slots: which layers an encoding serves, what layers share, what is refused, and by which path."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from relformer.encodings.none import NoPositions
from relformer.errors import OptionError, UserError
from relformer.model import ModelOptions, Seq2Seq, build_model
from relformer.model.slot import build_slot
from tests.model.models import PAD, SIZES, SOURCES, TARGETS, batch, build, check_cache, config, node

MODEL = ModelOptions(**SIZES)
ROLES = [("encoder", "encoding"), ("decoder", "decoder_encoding"), ("cross", "cross_encoding")]


@torch.no_grad()
def logits(model: Seq2Seq) -> Tensor:
    out: Tensor = model(*batch())
    return out


@pytest.mark.parametrize("name", ["shaw", "simple_bias", "transformer_xl", "t5"])
@pytest.mark.parametrize("served", [[0], [1]])
@torch.no_grad()
def test_a_layer_left_out_has_no_positions(name: str, served: list[int]) -> None:
    """As if the parameters of the other layer were zero."""
    part, whole = build(name, layers=served, share="layer"), build(name, share="layer")
    other = 1 - served[0]
    for role in ("encoder", "decoder"):
        slot, full = part.slots[role], whole.slots[role]
        assert isinstance(slot.encodings[slot.of_layer[other]], NoPositions)
        for key, p in full.encodings[served[0]].named_parameters():
            p.copy_(dict(slot.encodings[0].named_parameters())[key])
        for key, p in full.encodings[other].named_parameters():
            p.zero_() if key not in ("u", "v") else setattr(full.encodings[other], key, nn.Parameter(p * 0))
    torch.testing.assert_close(logits(part), logits(whole), rtol=1e-5, atol=1e-5)
    assert not torch.allclose(logits(part), logits(build("none")), atol=1e-2)


@pytest.mark.parametrize("name", ["alibi", "rope", "t5", "transformer_xl", "shaw", "none"])
@pytest.mark.parametrize("layers", [[0], [1], [1, 0], (0,)])
def test_hybrid_stacks_decode_from_the_cache(name: str, layers: Any) -> None:
    check_cache(build(name, layers=layers))


def test_all_layers_listed_is_all() -> None:
    assert torch.equal(logits(build("t5", layers=[0, 1])), logits(build("t5")))


@pytest.mark.parametrize("name", ["t5", "alibi", "rope", "simple_bias", "gated_bias", "shaw", "transformer_xl"])
def test_one_module_a_stack_or_one_a_layer(name: str) -> None:
    stack, layer = build(name, share="stack"), build(name, share="layer")
    assert [len(stack.slots[r].encodings) for r in ("encoder", "decoder")] == [1, 1]
    assert stack.slots["encoder"].of_layer == [0, 0]
    assert [len(layer.slots[r].encodings) for r in ("encoder", "decoder")] == [2, 2]
    assert layer.slots["encoder"].of_layer == [0, 1]
    check_cache(stack)
    check_cache(layer)


@pytest.mark.parametrize(
    ("name", "share"),
    [("t5", "stack"), ("alibi", "stack"), ("rope", "stack"), ("simple_bias", "layer"), ("shaw", "layer")],
)
def test_the_published_way_of_sharing_is_the_default(name: str, share: str) -> None:
    assert len(build(name).slots["encoder"].encodings) == (1 if share == "stack" else 2)


def test_layers_of_transformer_xl_share_the_two_biases_as_one_object() -> None:
    model = build("transformer_xl@cross")
    for slot in model.slots.values():
        first, second = slot.encodings
        assert first.u is second.u
        assert first.v is second.v
        assert first.relative_weight is not second.relative_weight
        assert not torch.equal(first.relative_weight, second.relative_weight)
    names = [name for name, _ in model.named_parameters() if name.endswith((".u", ".v"))]
    assert len(names) == 6
    assert model.slots["encoder"].encodings[0].u is not model.slots["decoder"].encodings[0].u


def test_encoder_and_decoder_share_no_parameter() -> None:
    model = build("t5@cross")
    owned = [set(slot.parameters()) for slot in model.slots.values()]
    assert all(owned)
    assert not owned[0] & owned[1]
    assert not owned[1] & owned[2]


def test_the_decoders_encoding_is_the_encoders_unless_set_and_cross_attention_has_none() -> None:
    same = build("t5")
    assert type(same.slots["decoder"].first) is type(same.slots["encoder"].first)
    assert isinstance(same.slots["cross"].first, NoPositions)
    assert same.slots["decoder"].first.path == "encoding"
    apart = build_model(config("t5") | {"decoder_encoding": node("alibi")}, SOURCES, TARGETS, PAD)
    assert type(apart.slots["decoder"].first).__name__ == "ALiBi"
    assert [apart.slots[role].first.path for role, _ in ROLES] == [path for _, path in ROLES]


@pytest.mark.parametrize("one", ["learned", "rope", "t5", "none"])
@pytest.mark.parametrize("other", ["sinusoidal", "alibi", "shaw"])
def test_mixed_models_decode_from_the_cache(one: str, other: str) -> None:
    mixed = config(one) | {"decoder_encoding": node(other), "cross_encoding": node("transformer_xl")}
    check_cache(build_model(mixed, SOURCES, TARGETS, PAD).eval())


@pytest.mark.parametrize("name", ["sinusoidal", "learned"])
def test_absolute_encodings_have_no_place_in_cross_attention(name: str) -> None:
    with pytest.raises(UserError, match=rf"cross_encoding={name}.*set it as encoding or decoder_encoding"):
        build_slot(node(name), "cross", "cross_encoding", MODEL)


@pytest.mark.parametrize("name", ["sinusoidal", "learned"])
@pytest.mark.parametrize("options", [{"share": "layer"}, {"layers": [0]}])
def test_absolute_encodings_have_no_layers(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"encoding\.share and encoding\.layers can't be set"):
        build_slot(node(name) | options, "encoder", "encoding", MODEL)


@pytest.mark.parametrize(("role", "path"), ROLES)
@pytest.mark.parametrize("layers", [[2], [-1], [], "first", [0, 5], 0, ["0"], [0.0], {"0": 1}], ids=str)
def test_layers_out_of_range_are_refused(role: Any, path: str, layers: Any) -> None:
    with pytest.raises(OptionError, match=rf"^{path}\.layers=.* numbers from 0 to 1$"):
        build_slot(node("t5") | {"layers": layers}, role, path, MODEL)


@pytest.mark.parametrize(("role", "path"), ROLES)
def test_nonsense_sharing_is_refused(role: Any, path: str) -> None:
    with pytest.raises(OptionError, match=rf"^{path}\.share='everything' is not one of stack, layer$"):
        build_slot(node("t5") | {"share": "everything"}, role, path, MODEL)


@pytest.mark.parametrize(("role", "path"), ROLES)
def test_an_options_fault_carries_the_slots_path(role: Any, path: str) -> None:
    with pytest.raises(OptionError, match=rf"^{path}\.max_bias=-1 must be positive"):
        build_slot({"name": "alibi", "max_bias": -1}, role, path, MODEL)


def test_an_unknown_encoding_is_refused_with_the_list() -> None:
    with pytest.raises(UserError, match="no encoding 'rotary'"):
        build_slot({"name": "rotary"}, "encoder", "encoding", MODEL)


def test_the_multiplier_of_a_slot_without_positions() -> None:
    """T5's cross-attention is unscaled."""
    slots = {
        scale: build_slot(node("none", scale=scale), "cross", "cross_encoding", ModelOptions()) for scale in (None, 1.0)
    }
    assert [slot.first.scale(16) for slot in slots.values()] == [0.25, 1.0]
    with pytest.raises(OptionError, match=r"cross_encoding.scale=0 must be positive"):
        build_slot(node("none", scale=0), "cross", "cross_encoding", ModelOptions())
