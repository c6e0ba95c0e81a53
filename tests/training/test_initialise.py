"""A trained model's weights in another model: what is taken, what is listed, and what a longer table computes."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch

from relformer.data.vocabulary import Vocabulary
from relformer.errors import UserError
from relformer.model import Seq2Seq, build_model
from relformer.training.initialise import Line, Transfer, refuse_unlike, transfer
from relformer.training.origin import Origin
from tests.model.models import SIZES, enliven, node

SPLIT = {"split": "distance_direction"}
LETTERS = [*"abcdefgh"]
SOURCE = torch.tensor([[3, 4, 5, 6, 7, 8]])
TARGET = torch.tensor([[1, 8, 7, 6, 5, 4, 3]])


def config(encoding: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"seed": more.pop("seed", 1), "model": SIZES | more.pop("model", {}), "encoding": dict(encoding), **more}


def trained(encoding: Mapping[str, Any], letters: list[str] = LETTERS, **more: Any) -> Origin:
    """An origin whose weights are nobody's start."""
    coder = Vocabulary(letters)
    made = config(encoding, **more)
    model = build_model(made, len(coder), len(coder))
    enliven(model)
    return Origin("old", made, model.state_dict(), (coder, coder), 7, "f00d")


def fresh(encoding: Mapping[str, Any], letters: list[str] = LETTERS, **more: Any) -> Seq2Seq:
    return build_model(config(encoding, seed=2, **more), len(letters) + 3, len(letters) + 3).eval()


def moved(model: Seq2Seq, origin: Origin, letters: list[str] = LETTERS) -> Transfer:
    coder = Vocabulary(letters)
    return transfer(model, (coder, coder), origin)


def listed(done: Transfer) -> set[tuple[str, str]]:
    return {(line.kind, line.name) for line in done.lines}


@torch.no_grad()
def same_function(model: Seq2Seq, origin: Origin, source: torch.Tensor = SOURCE) -> None:
    torch.testing.assert_close(model(source, TARGET), origin.model.eval()(source, TARGET))


def test_the_same_configuration_takes_everything() -> None:
    origin, model = trained(node("t5")), fresh(node("t5"))
    done = moved(model, origin)
    assert done.exact and not done.lines and not done.tokens
    assert done.numbers == sum(p.numel() for p in model.parameters())
    same_function(model, origin)
    refuse_unlike(done, strict=True, model={})


def test_a_swapped_encoding_is_listed_and_the_rest_is_taken() -> None:
    origin, model = trained(node("t5")), fresh(node("kerple_log"))
    drawn = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    done = moved(model, origin)
    new = {("new", f"{s}.slot.encodings.0.past.kerple_log_r{n}") for s in ("encoder", "decoder") for n in (1, 2)}
    assert listed(done) == new | {("dropped", f"{s}.slot.encodings.0.bucket_weight") for s in ("encoder", "decoder")}
    for name, tensor in model.state_dict().items():
        expected = drawn[name] if "slot" in name else origin.state[name]
        assert torch.equal(tensor, expected), name


def test_an_encoding_of_another_class_gives_nothing_though_its_tables_have_the_same_name() -> None:
    origin, model = trained(node("simple_bias")), fresh(node("gated_bias"))
    name = "encoder.slot.encodings.0.distance_weight"
    done = moved(model, origin)
    assert {("new", name), ("dropped", name)} <= listed(done)
    assert not torch.equal(model.state_dict()[name], origin.state[name])


def test_the_listing_is_aligned_and_stops_a_strict_run() -> None:
    origin = trained(node("learned", max_length=8), model={"encoder_layers": 2})
    done = moved(fresh(node("learned", max_length=12), model={"encoder_layers": 1}), origin)
    lines = list(done.said())
    assert lines[0].startswith("weights of old (step 7): ")
    resized = [line for line in lines if line.startswith("  resized")]
    assert len(resized) == 2 and all("8x24 -> 12x24" in line for line in resized)
    assert len({line.index("8x24") for line in resized}) == 1
    assert sum(line.startswith("  dropped  encoder.layers.1.") for line in lines) > 3
    assert any(line.endswith("dropped, 2 resized") for line in lines)
    with pytest.raises(UserError, match=r"(?s)weights of old.*dropped  encoder.*add init_strict=false"):
        refuse_unlike(done, strict=True, model={})
    others = {"encoder_layers": 1, "feedforward_bias": True}
    with pytest.raises(UserError, match=r"other options; to have them here too, add model.encoder_layers=2$"):
        refuse_unlike(done, strict=True, model=others)
    refuse_unlike(done, strict=False, model={})


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("simple_bias", {"max_length": 4}, {"max_length": 9}),
        ("gated_bias", {"max_length": 4}, {"max_length": 9}),
        ("gated_bias", {"max_length": 4, "rank": 2}, {"max_length": 9, "rank": 2}),
        ("gated_bias", {"max_length": 4, **SPLIT}, {"max_length": 9, **SPLIT}),
        ("shaw", {"max_distance": 2}, {"max_distance": 8}),
        ("shaw", {"max_distance": 2, "zero_outside": True}, {"max_distance": 8, "zero_outside": True}),
        ("deberta", {"max_distance": 3}, {"max_distance": 20}),
        ("learned", {"max_length": 8}, {"max_length": 30}),
        ("learned", {"max_length": 8}, {"max_length": 30, "extend": "hierarchical"}),
        ("multiplicative", {"max_length": 8}, {"max_length": 30}),
        ("absolute_bias", {"max_length": 8}, {"max_length": 30}),
        ("tupe_a", {"max_length": 8}, {"max_length": 30}),
        ("tupe_r", {"max_length": 8, "num_buckets": 32}, {"max_length": 30, "num_buckets": 32}),
        ("t5", {"num_buckets": 8, "max_distance": 20}, {"num_buckets": 32, "max_distance": 20}),
        ("compose", {"parts": [{"name": "simple_bias", "max_length": 3}, {"name": "rope"}]},
         {"parts": [{"name": "simple_bias", "max_length": 9}, {"name": "rope"}]}),
    ],
)  # fmt: skip
def test_a_larger_table_computes_what_the_trained_one_did(name: str, old: Any, new: Any) -> None:
    """Within the trained length, and for clipped distances beyond it."""
    origin, model = trained({"name": name, **old}), fresh({"name": name, **new})
    done = moved(model, origin)
    assert {kind for kind, _ in listed(done)} == {"resized"}
    same_function(model, origin)


def test_a_larger_table_of_counts() -> None:
    both = {"encoding": {"name": "none"}}
    origin = trained({"name": "none"}, decoder_encoding={"name": "cope", "p_max": 3})
    model = fresh(both["encoding"], decoder_encoding={"name": "cope", "p_max": 8})
    moved(model, origin)
    rows, before = model.state_dict()["decoder.slot.encodings.0.count_rows"], origin.model.decoder.slot.first.count_rows
    assert torch.equal(rows[:3], before) and torch.equal(rows[3:], before[2:].expand(5, -1))


def test_a_table_is_resampled_where_the_encoding_says_so() -> None:
    origin = trained(node("learned", max_length=5))
    model = fresh(node("learned", max_length=9, extend="interpolate"))
    moved(model, origin)
    old, new = origin.state["encoder.slot.encodings.0.position_weight"], model.encoder.slot.first.position_weight
    torch.testing.assert_close(new[::2], old)
    torch.testing.assert_close(new[1], (old[0] + old[1]) / 2)


def test_su_reaches_the_square_and_no_further() -> None:
    with pytest.raises(UserError, match=r"max_length=26 is too much for extend=hierarchical, which reaches 25"):
        moved(fresh(node("learned", max_length=26, extend="hierarchical")), trained(node("learned", max_length=5)))


def test_a_smaller_table_keeps_what_it_has_room_for() -> None:
    origin, model = trained(node("learned", max_length=30)), fresh(node("learned", max_length=8))
    assert {kind for kind, _ in listed(moved(model, origin))} == {"resized"}
    same_function(model, origin)


@torch.no_grad()
def test_a_table_is_read_by_distance_where_the_prefix_becomes_visible() -> None:
    """T5's buckets have one direction in a causal decoder and two where keys stand on both sides."""
    decoder_only = {"encoder_layers": 0, "tie": "all"}
    origin = trained({"name": "t5"}, model=decoder_only)
    model = fresh({"name": "t5"}, model=decoder_only | {"prefix": "visible"})
    (line,) = moved(model, origin).lines
    assert line.kind == "resized" and line.name.endswith("bucket_weight")
    past = torch.arange(8)
    old, new = (each.slots["decoder"].first.table(past) for each in (origin.model, model))
    torch.testing.assert_close(new, old)


@torch.no_grad()
def test_words_are_found_by_their_names() -> None:
    """The new vocabulary has them in another order, one more and one less."""
    origin = trained(node("complex"))
    letters = ["z", *reversed(LETTERS[:-1])]
    model = fresh(node("complex"), letters)
    done = moved(model, origin, letters)
    assert done.tokens == [
        f"tokens   {side}: 1 new, 1 dropped, 7 moved, of 11 (before: 11)" for side in ("source", "target")
    ]
    assert not done.exact and not [line for line in done.lines if line.kind != "resized"]
    coder, old = Vocabulary(letters), origin.coders[0]
    text = "a b c g f"
    out = model(torch.tensor([coder.encode(text)]), torch.tensor([[1, *coder.encode(text)]]))
    expected = origin.model.eval()(torch.tensor([old.encode(text)]), torch.tensor([[1, *old.encode(text)]]))
    torch.testing.assert_close(out[..., coder.encode(text)], expected[..., old.encode(text)])


def test_words_in_another_order_alone_are_no_fault() -> None:
    letters = [*reversed(LETTERS)]
    done = moved(fresh(node("t5"), letters), trained(node("t5")), letters)
    assert done.exact and not done.lines and len(done.tokens) == 2
    refuse_unlike(done, strict=True, model={})


@pytest.mark.parametrize(("before", "after", "kinds"), [
    ("all", "all", set()),
    ("all", "decoder", set()),
    ("decoder", "all", {("dropped", "target_embedding.weight")}),
    ("decoder", "none", {("new", "output.weight")}),
    ("none", "decoder", {("dropped", "output.weight")}),
])  # fmt: skip
def test_tied_embeddings(before: str, after: str, kinds: set[tuple[str, str]]) -> None:
    done = moved(fresh(node("rope"), model={"tie": after}), trained(node("rope"), model={"tie": before}))
    assert listed(done) == kinds


def test_copies_of_a_tied_tensor_are_not_dropped() -> None:
    """As a checkpoint from elsewhere may hold them."""
    origin = trained(node("rope"), model={"tie": "all"})
    state = {name: tensor.clone() for name, tensor in origin.state.items()}
    copied = Origin("old", origin.config, state, origin.coders, 0, None)
    assert moved(fresh(node("rope"), model={"tie": "all"}), copied).exact


def test_another_width_is_drawn_anew() -> None:
    done = moved(fresh(node("t5"), model={"width": 48}), trained(node("t5")))
    line = next(line for line in done.lines if line.name == "encoder.layers.0.attention.query.weight")
    assert line == Line("resized", line.name, "24x24 -> 48x48", "other sizes: drawn by the seed")
