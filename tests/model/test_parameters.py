"""Runs with one seed are paired: what two models share starts equal. And checkpoints come back."""

from functools import cache
from itertools import combinations

import pytest
import torch
from torch import Tensor

from relformer.encodings import draw
from relformer.model import Seq2Seq, build_model
from tests.model.models import PAD, PLACES, SOURCES, TARGETS, batch, build, config, sizes


def start(place: str, seed: int = 1, **model: object) -> dict[str, Tensor]:
    built = build_model(config(place, seed, model=model), SOURCES, TARGETS, PAD)
    return {name: p.detach() for name, p in built.named_parameters()}


@cache
def started(place: str) -> dict[str, Tensor]:
    return start(place)


@cache
def shared() -> dict[str, Tensor]:
    """Every weight outside the encodings, as the first model that has it draws it."""
    found: dict[str, Tensor] = {}
    for place in PLACES:
        found = {name: p for name, p in started(place).items() if ".encodings." not in name} | found
    return found


@pytest.mark.parametrize("place", PLACES)
def test_models_with_one_seed_share_every_weight_outside_the_encodings(place: str) -> None:
    """So that any two are paired: each equals what the first that has a weight drew."""
    own = {name: p for name, p in started(place).items() if ".encodings." not in name}
    for name, p in own.items():
        assert torch.equal(p, shared()[name]), name
    apart = {name for name in own.keys() ^ started("none").keys() if ".encodings." not in name}
    biased = sizes(place.partition("@")[0]) != sizes("none")
    assert bool(apart) == biased and all(name.endswith((".query.bias", ".key.bias")) for name in apart)


def test_a_table_that_two_encodings_have_starts_equal() -> None:
    simple, gated = started("simple_bias"), started("gated_bias")
    tables = [name for name in simple if name.endswith("distance_weight")]
    assert len(tables) == 4
    assert all(torch.equal(simple[name], gated[name]) for name in tables)


@pytest.mark.parametrize("place", PLACES)
def test_an_encoding_in_the_cross_slot_moves_no_other_weight(place: str) -> None:
    own = started(place.partition("@")[0])
    for name, tensor in started(place).items():
        assert "decoder.cross." in name or torch.equal(own[name], tensor), name


@pytest.mark.parametrize("place", PLACES)
def test_another_seed_draws_other_weights(place: str) -> None:
    again, other = start(place), start(place, seed=2)
    for name, tensor in started(place).items():
        assert torch.equal(again[name], tensor), name
        drawn = len(tensor.unique()) > max(1, tensor.numel() // 4)  # not a constant
        assert torch.equal(other[name], tensor) != drawn, name


def test_parameters_do_not_depend_on_the_global_generator() -> None:
    torch.manual_seed(0)
    first = start("t5@cross")
    torch.manual_seed(99)
    state = torch.get_rng_state()
    second = start("t5@cross")
    assert all(torch.equal(first[name], second[name]) for name in first)
    model = build("rope")
    torch.set_rng_state(state)
    draw(model, 3)
    assert torch.equal(torch.get_rng_state(), state)


def test_parameters_with_the_same_law_and_different_names_differ() -> None:
    names = [f"encoder.layers.{n}.attention.{part}.weight" for n in (0, 1) for part in ("query", "key", "value", "out")]
    tensors = [started("none")[name] for name in names]
    assert not any(torch.equal(a, b) for a, b in combinations(tensors, 2))


def test_a_deeper_model_has_the_same_lower_layers() -> None:
    deep = start("alibi", encoder_layers=3, decoder_layers=3)
    assert all(torch.equal(deep[name], tensor) for name, tensor in started("alibi").items())


@pytest.mark.parametrize("place", PLACES)
@torch.no_grad()
def test_a_state_dict_comes_back(place: str) -> None:
    model, other, (source, target) = build(place), build(place, seed=2), batch()
    wanted = model(source, target)
    assert not torch.allclose(other(source, target), wanted, atol=1e-2)
    other.load_state_dict(model.state_dict(), strict=True)
    torch.testing.assert_close(other(source, target), wanted, rtol=0, atol=0)


@pytest.mark.parametrize("place", PLACES)
def test_a_state_dict_holds_parameters_alone(place: str) -> None:
    model = build(place)
    assert set(model.state_dict()) == {name for name, _ in model.named_parameters(remove_duplicate=False)}


@pytest.mark.parametrize("place", PLACES)
def test_position_parameters_are_counted_once(place: str) -> None:
    model: Seq2Seq = build(place)
    counted = sum(p.numel() for name, p in model.named_parameters() if ".encodings." in name)
    assert model.position_parameters() == counted


@pytest.mark.parametrize(
    ("place", "count"),
    [
        ("none", 0),
        ("sinusoidal", 0),
        ("alibi@cross", 0),
        ("rope@cross", 0),
        ("xpos", 0),
        ("polar@cross", 3 * 3 * 8),
        ("learned", 2 * 24 * 24),
        ("t5@cross", 3 * 8 * 3),
        ("simple_bias@cross", 2 * (11 + 6 + 11) * 3),
        ("gated_bias", 2 * (11 + 6 + 2 + 2) * 3),
        ("shaw", 2 * 2 * 2 * 9 * 8),
        ("transformer_xl", 2 * (2 * 24 * 24 + 2 * 24)),
    ],
)
def test_how_many_parameters_an_encoding_adds(place: str, count: int) -> None:
    """Two layers; three heads of 8; options of `SMALL`."""
    assert build(place).position_parameters() == count
