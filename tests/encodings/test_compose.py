"""Several encodings in one slot: each adds what it adds alone, once, through whichever hook its options make it use."""

from itertools import permutations
from typing import Any

import pytest
import torch
from torch import Tensor

from relformer.attention.call import Call
from relformer.encodings import PositionalEncoding
from relformer.errors import UserError
from relformer.model import ModelOptions, build_model, positions_needed
from relformer.model.building import refuse_moved_first
from relformer.model.slot import build_slot
from tests.encodings.calls import WIDTH, enliven, make, qkv, randn, ready

PARTS: tuple[dict[str, Any], ...] = (
    {"name": "alibi"},
    {"name": "t5", "untie_first": True},
    {"name": "simple_bias", "untie_first": True},
    {"name": "gated_bias", "gate": "content"},
    {"name": "tupe_r", "cls": True},
    {"name": "tupe_a"},
    {"name": "shaw"},
)


def added(encoding: PositionalEncoding) -> Tensor:
    """What an encoding adds to the logits (B, H, Q, K), content apart."""
    q, k, v = qkv(5, 5)
    features = encoding.features(randn(2, 5, WIDTH)) if encoding.acts("features") else None
    call = Call(q, k, v, encoding, ready(encoding, range(5), range(5)), (q, k), features)
    return call.logits() - q @ k.mT * call.scale


@torch.no_grad()
@pytest.mark.parametrize("role", ["encoder", "decoder"])
@pytest.mark.parametrize("pair", list(permutations(PARTS, 2)), ids=lambda pair: "-".join(part["name"] for part in pair))
def test_parts_add_up(pair: tuple[dict[str, Any], ...], role: str) -> None:
    if {part["name"] for part in pair} <= {"tupe_r", "tupe_a"}:
        pytest.skip("both set the multiplier of q·k")
    composed = make("compose", role, parts=list(pair))
    enliven(composed)
    alone = [added(part) for part in composed.parts]  # type: ignore[arg-type,union-attr]
    assert all(term.abs().max() > 0.1 for term in alone)
    torch.testing.assert_close(added(composed), sum(alone), rtol=1e-4, atol=1e-4)


def test_a_part_sets_the_multiplier_where_it_is_told_to() -> None:
    assert make("compose", parts=[{"name": "t5"}, {"name": "tupe_a"}]).scale(8) == make("tupe_a").scale(8) != 8**-0.5
    assert make("compose", parts=[{"name": "tener", "scale": None}, {"name": "tupe_a"}]).scale(8) == 16**-0.5
    assert make("compose", parts=[{"name": "t5", "scale": 1.0}, {"name": "alibi"}]).scale(8) == 1.0


def test_a_table_at_the_input_is_one_for_all_layers() -> None:
    """Beside a part that is published as one a layer."""
    model = {"width": 16, "heads": 2, "encoder_layers": 3}
    parts = [{"name": "learned", "max_length": 8}, {"name": "shaw"}]
    slot = build_slot({"name": "compose", "parts": parts}, "encoder", "encoding", ModelOptions(**model))
    assert len(slot.encodings) == 3 and sum(p.numel() == 8 * 16 for p in slot.parameters()) == 1
    alone = build_slot({"name": "shaw"}, "encoder", "encoding", ModelOptions(**model))
    assert sum(p.numel() for p in slot.parameters()) == 8 * 16 + sum(p.numel() for p in alone.parameters())


def lacking(parts: list[dict[str, Any]], length: int) -> tuple[str, int, int] | None:
    slot = build_slot({"name": "compose", "parts": parts}, "encoder", "encoding", ModelOptions(width=16, heads=2))
    return slot.first.shortage(length)


def test_a_table_must_hold_the_positions_that_are_drawn() -> None:
    """Said before training, with the option of the part that lacks them."""
    table = {"name": "learned", "max_length": 40}
    assert lacking([{"name": "alibi"}, table], 40) is None
    assert lacking([{"name": "alibi"}, table], 41) == ("encoding.parts[1].max_length", 40, 41)
    shifted = {"name": "shape", "max_shift": 30, "table": "none"}
    assert lacking([shifted, table], 10) is None
    assert lacking([shifted, table], 11) == ("encoding.parts[1].max_length", 40, 41)
    longer = {"name": "learned", "max_length": 10, "extend": "interpolate", "extend_to": 40}
    assert lacking([shifted, longer], 11) == ("encoding.parts[1].extend_to", 40, 41)
    drawn = {"name": "randomized", "max_position": 64, "eval_length": 16, "table": "none"}
    assert lacking([drawn, table], 5) == ("encoding.parts[1].max_length", 40, 64)
    assert lacking([drawn, {**table, "max_length": 64}], 16) is None
    assert lacking([drawn, {**table, "max_length": 64}], 17) == ("encoding.parts[0].eval_length", 16, 17)
    for parts, most in (([shifted, table], 10), ([drawn, {**table, "max_length": 64}], 16), ([drawn, table], 0)):
        assert make("compose", parts=parts).max_positions() == most


@pytest.mark.parametrize("apart", [{"name": "t5", "untie_first": True}, {"name": "tupe_a", "cls": True}])
@pytest.mark.parametrize("place", ["encoder", "cross"])
def test_the_first_token_can_not_be_apart_where_positions_are_drawn(apart: dict[str, Any], place: str) -> None:
    drawn = {"name": "shape", "table": "none"}
    config: dict[str, Any] = {"seed": 0, "model": {"width": 16, "heads": 2}, "decoder_encoding": {"name": "alibi"}}
    together = {"encoding": {"name": "compose", "parts": [drawn, apart]}}
    refuse_moved_first(build_model(config | {"encoding": apart, "cross_encoding": apart}, 5, 5))
    moved = config | (together if place == "encoder" else {"encoding": drawn, "cross_encoding": apart})
    model = build_model(moved, 5, 5)  # one that was trained can be opened
    with pytest.raises(UserError, match=r"sets the token at position 0 apart .*, and encoding draws positions"):
        refuse_moved_first(model)


def test_cross_attention_meets_the_positions_that_both_sides_draw() -> None:
    config: dict[str, Any] = {"seed": 0, "model": {"width": 16, "heads": 2}}
    config |= {"encoding": {"name": "shape", "max_shift": 30}, "decoder_encoding": {"name": "rope"}}
    model = build_model(config | {"cross_encoding": {"name": "tupe_a", "max_length": 40}}, 5, 5)
    positions_needed(model, 10, 40)
    with pytest.raises(UserError, match=r"up to 41 as they are drawn, more than cross_encoding.max_length=40; set"):
        positions_needed(model, 11, 10)


def test_a_model_with_idle_copies_of_a_table_is_read_as_it_was() -> None:
    """Compositions once had a table in every layer, of which the first was read."""
    model = {"width": 16, "heads": 2, "encoder_layers": 2}
    parts = [{"name": "learned", "max_length": 8}, {"name": "shaw"}]
    slot = build_slot({"name": "compose", "parts": parts}, "encoder", "encoding", ModelOptions(**model))
    state = {name: value.clone() for name, value in slot.state_dict().items()}
    trained = torch.full_like(state["encodings.0.parts.0.position_weight"], 7.0)
    slot.load_state_dict(state | {"encodings.0.parts.0.position_weight": trained})
    assert torch.equal(slot.first.parts[0].position_weight, trained)  # type: ignore[union-attr,index]
