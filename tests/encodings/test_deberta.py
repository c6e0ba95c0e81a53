"""DeBERTa against the package in its second and third form, its buckets, its index, and its absolute positions."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from relformer.attention import attend
from relformer.encodings import LengthError, PositionalEncoding, Span
from relformer.encodings.deberta import buckets
from relformer.errors import OptionError, UserError
from relformer.model import ModelOptions, build_model, positions_needed
from relformer.model.attention import Attention
from relformer.model.slot import Placed, build_slot
from tests.encodings.calls import CPU, enliven, fixture, joined, make, probabilities, project, put, qkv, randn, ready
from tests.model.models import PAD, SOURCES, TARGETS, batch, build, check_cache, check_causal, check_padding, config
from tests.model.test_gradients import gradients

V3: dict[str, Any] = {
    "shared_projections": True,
    "norm_embeddings": True,
    "position_buckets": 4,
    "max_distance": 16,
    "model": {"attention_bias": "qkv"},
}
FORMS: list[dict[str, Any]] = [
    V3,
    V3 | {"p2c_index": "paper"},
    V3 | {"absolute_last": 1, "max_length": 30},
    V3 | {"share": "stack"},
    {"shared_projections": True, "terms": ["c2p"]},
    {"shared_projections": True, "terms": ["p2c"], "norm_embeddings": True},
    {"norm_embeddings": True, "p2c_index": "paper"},
    {"norm_embeddings": True, "terms": ["c2c", "c2p"]},
    {"terms": ["c2c"]},
    {"absolute_last": 2},
    {"max_distance": 1},
]


def position_scores(encoding: PositionalEncoding, q: Tensor, k: Tensor, span: Span) -> Tensor:
    return encoding.score(q.new_zeros(*q.shape[:3], k.shape[2]), q, k, None, span, None)


def per_head(weight: Tensor, heads: int = 2) -> Tensor:
    return weight.unflatten(0, (heads, -1))  # (H D, ...) -> (H, D, ...)


def test_own_projections_of_the_reference() -> None:
    """Its bias on the position keys adds q · b to every logit of a query, which the softmax removes."""
    case = fixture("deberta_v2_untied")
    encoding = make("deberta", heads=2, head_dim=6, max_distance=4)
    put(
        encoding,
        deberta_rows=case["rel_embeddings"],
        deberta_key=per_head(case["param.pos_key_proj.weight"]),
        deberta_query=per_head(case["param.pos_query_proj.weight"]),
        deberta_query_bias=per_head(case["param.pos_query_proj.bias"]),
    )
    q, k, v = (project(case["x"], case, f"{layer}_proj", 2) for layer in ("query", "key", "value"))
    torch.testing.assert_close(q[0], case["q"], rtol=0, atol=2e-5)
    span = ready(encoding, range(7), range(7))
    constant = encoding.scale(6) * q @ per_head(case["param.pos_key_proj.bias"])[..., None]
    bias = position_scores(encoding, q, k, span) + constant
    torch.testing.assert_close(bias[0], case["bias"], rtol=0, atol=2e-5)
    torch.testing.assert_close(probabilities(q, k, encoding, span), case["probs"], rtol=0, atol=2e-5)
    out = attend(q, k, v, encoding, span, backend="dense")
    torch.testing.assert_close(joined(out), case["y"], rtol=0, atol=2e-5)


@torch.no_grad()
def v3() -> tuple[dict[str, Tensor], Attention, PositionalEncoding]:
    """The third form's attention layer with foreign weights, its output left as it is."""
    case = fixture("deberta_v3_shared_buckets")
    attention = Attention(ModelOptions(width=12, heads=2, attention_bias="qkv"), "dense")
    for layer in ("query", "key", "value"):
        getattr(attention, layer).weight.copy_(case[f"param.{layer}_proj.weight"])
        getattr(attention, layer).bias.copy_(case[f"param.{layer}_proj.bias"])
    attention.out = nn.Identity()  # type: ignore[assignment]
    encoding = make("deberta", heads=2, head_dim=6, max_distance=16, position_buckets=4, shared_projections=True)
    put(encoding, deberta_rows=case["rel_embeddings"])
    return case, attention, encoding


def placed(encoding: PositionalEncoding, q: range, k: range) -> Placed:
    span = ready(encoding, q, k)
    return Placed(encoding, span, span)


@torch.no_grad()
def test_the_layers_projections_of_the_reference() -> None:
    case, attention, encoding = v3()
    where = placed(encoding, range(12), range(12))
    memory = attention.memory(case["x"], where)
    torch.testing.assert_close(attention(case["x"], memory, where, None, False), case["y"], rtol=0, atol=2e-5)

    q, k = case["q"][None], case["k"][None]

    def rows(layer: nn.Module) -> Any:
        return lambda x: attention.split(layer(x)[None])[0]

    span = encoding.project(where.span, rows(attention.query), rows(attention.key))
    torch.testing.assert_close(position_scores(encoding, q, k, span)[0], case["bias"], rtol=0, atol=2e-5)
    torch.testing.assert_close(probabilities(q, k, encoding, span), case["probs"], rtol=0, atol=2e-5)


@torch.no_grad()
def test_the_third_form_needs_only_the_last_queries() -> None:
    """A step with three queries behind nine remembered keys gives the last rows of the whole."""
    case, attention, encoding = v3()
    where = placed(encoding, range(9, 12), range(12))
    memory = attention.memory(case["x"], placed(encoding, range(12), range(12)))
    step = attention(case["x"][:, 9:], memory, where, None, False)
    torch.testing.assert_close(step, case["y"][:, 9:], rtol=0, atol=2e-5)


@pytest.mark.parametrize("index", ["code", "paper"])
@torch.no_grad()
def test_both_ways_of_projecting_agree_where_the_weights_do(index: str) -> None:
    case, attention, _ = v3()
    options: dict[str, Any] = {"max_distance": 5, "norm_embeddings": True, "p2c_index": index}
    shared, own = (
        make("deberta", heads=2, head_dim=6, shared_projections=through, **options) for through in (True, False)
    )
    enliven(shared)
    put(
        own,
        **dict(shared.named_parameters()),
        deberta_key=per_head(attention.key.weight),
        deberta_query=per_head(attention.query.weight),
        deberta_query_bias=per_head(attention.query.bias),
    )
    outputs = []
    for encoding in (shared, own):
        where = placed(encoding, range(12), range(12))
        outputs.append(attention(case["x"], attention.memory(case["x"], where), where, None, False))
    torch.testing.assert_close(*outputs, rtol=1e-5, atol=1e-5)


def test_only_the_third_form_reads_the_layers_projections() -> None:
    def refuse(x: Tensor) -> Tensor:
        raise AssertionError("read")

    own = make("deberta", max_distance=4)
    span = ready(own, range(4), range(4))
    assert own.project(span, refuse, refuse) is span
    names = {name for name, _ in make("deberta", max_distance=4, shared_projections=True).named_parameters()}
    assert names == {"deberta_rows"}


@pytest.mark.parametrize(("size", "far", "stored"), [(256, 512, "b256_512"), (16, 64, "b16_64")])
def test_buckets_of_the_reference(size: int, far: int, stored: str) -> None:
    """It has no clamp, and differs from the authors' code beyond the last distance."""
    case = fixture("deberta_log_buckets")
    encoding = make("deberta", max_distance=far, position_buckets=size)
    ours, theirs = encoding.row(case["rel"]) - size, case[stored]
    inside = case["rel"].abs() < far
    assert torch.equal(ours[inside], theirs[inside])
    assert torch.equal(ours[~inside], (size - 1) * case["rel"][~inside].sign())
    assert int(encoding.row(case["rel"]).min()) == 1  # row 0 is never read


def test_buckets_rise_by_steps_of_at_most_one() -> None:
    for size, far in ((4, 4), (16, 64), (256, 512)):
        steps = buckets(size, far).diff()
        assert ((steps == 0) | (steps == 1)).all()
        assert int(buckets(size, far)[-1]) == size - 1


@pytest.mark.parametrize("index", ["code", "paper"])
def test_both_readings_of_the_third_term(index: str) -> None:
    """One-hot rows of P make the projections the given rows themselves."""
    case = fixture("oracle_only")
    encoding = make("deberta", heads=2, head_dim=4, max_distance=3, p2c_index=index)
    key, query = (torch.zeros(2, 4, 8) for _ in range(2))
    key[..., :6], query[..., :6] = case["deberta.pk_span3"].mT, case["deberta.pq_span3"].mT
    put(
        encoding,
        deberta_rows=torch.eye(6, 8),
        deberta_key=key,
        deberta_query=query,
        deberta_query_bias=torch.zeros(2, 4),
    )
    q, k = case["qkv.q"][None], case["qkv.k"][None]
    span = ready(encoding, range(6), range(6))
    scores = encoding.score(q @ k.mT * encoding.scale(4), q, k, None, span, None)
    torch.testing.assert_close(scores[0], case[f"deberta.scores_{index}"], rtol=0, atol=2e-5)


def test_distances_reach_from_minus_s_to_s_minus_one() -> None:
    assert make("deberta", max_distance=3).row(torch.arange(-5, 6)).tolist() == [0, 0, 0, 1, 2, 3, 4, 5, 5, 5, 5]


@pytest.mark.parametrize(("terms", "count"), [(["c2c"], 1), (["c2p", "p2c"], 2), (["c2c", "c2p", "p2c"], 3)], ids=str)
def test_the_scale_follows_the_number_of_terms(terms: list[str], count: int) -> None:
    assert make("deberta", terms=terms).scale(8) == pytest.approx((8 * count) ** -0.5)


def test_content_alone_is_no_encoding() -> None:
    q, k, v = qkv(6, 6)
    outputs = []
    for name, options in (("none", {}), ("deberta", {"terms": ["c2c"]})):
        encoding = make(name, **options)
        outputs.append(attend(q, k, v, encoding, ready(encoding, range(6), range(6)), backend="dense"))
    assert torch.equal(*outputs)


@pytest.mark.parametrize("positions", [range(30), torch.arange(30)[None]], ids=["range", "listed"])
def test_a_call_projects_the_rows_it_needs_and_never_more_than_there_are(positions: Any) -> None:
    for reach, least in ((4, 8), (200, 59)):
        encoding = make("deberta", max_distance=reach)
        c2p, p2c = ready(encoding, positions, positions).prepared
        assert c2p.rows.shape == p2c.rows.shape == (3, least, 8)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_forms_decode_from_the_cache(form: dict[str, Any]) -> None:
    for place in ("deberta",) if "absolute_last" in form else ("deberta", "deberta@cross"):
        model = build(place, **form)
        check_cache(model)
        check_padding(model)
        check_causal(model)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_forms_give_every_parameter_a_gradient(form: dict[str, Any]) -> None:
    for name, gradient in gradients(build("deberta", **form)).items():
        assert ".encodings." not in name or (gradient != 0).any(), name


def test_layers_share_the_rows_and_project_them_apart() -> None:
    model = build("deberta", norm_embeddings=True, absolute_last=1)
    for slot in (model.slots["encoder"], model.slots["decoder"]):
        first, second = slot.encodings
        for name in ("deberta_rows", "deberta_gain", "deberta_shift", "deberta_positions"):
            assert getattr(first, name) is getattr(second, name), name
        for name in ("deberta_key", "deberta_query", "deberta_query_bias"):
            assert getattr(first, name) is not getattr(second, name), name
    assert model.slots["encoder"].first.deberta_rows is not model.slots["decoder"].first.deberta_rows
    # 8 rows, two norms' worth, 512 positions, and two layers of two projections with one bias
    assert model.position_parameters() == 2 * (8 * 24 + 2 * 24 + 512 * 24 + 2 * (2 * 24 * 24 + 24))


def test_dropout_falls_on_the_rows_in_training_alone() -> None:
    encoding = make("deberta", max_distance=4, relative_dropout=0.5)
    enliven(encoding)
    first, second = (ready(encoding, range(4), range(4)).prepared[0].rows for _ in range(2))
    assert not torch.equal(first, second)
    encoding.eval()
    first, second = (ready(encoding, range(4), range(4)).prepared[0].rows for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.parametrize("last", [0, 1, 2])
@torch.no_grad()
def test_absolute_positions_enter_what_the_queries_of_the_last_layers_read(last: int) -> None:
    slot = build_slot(
        {"name": "deberta", "absolute_last": last}, "encoder", "encoding", ModelOptions(width=24, heads=3)
    )
    enliven(slot)
    x = randn(2, 3, 24)
    for layer, encoding in enumerate(slot):
        for positions in (range(4, 7), torch.tensor([[4, 5, 6]])):
            moved = encoding.query_input(x, Span.between(positions, positions, 9, CPU)) - x
            wanted = encoding.deberta_positions[4:7].expand(2, 3, 24) if layer >= 2 - last else torch.zeros(2, 3, 24)
            torch.testing.assert_close(moved, wanted, rtol=0, atol=1e-6)


@torch.no_grad()
def test_absolute_positions_change_the_output() -> None:
    model = build("deberta", absolute_last=1)
    wanted = model(*batch())
    for slot in (model.slots["encoder"], model.slots["decoder"]):
        slot.first.deberta_positions.zero_()
    assert (model(*batch()) - wanted).abs().max() > 1e-2


def test_positions_beyond_the_absolute_table_are_an_error() -> None:
    model = build("deberta", absolute_last=1, max_length=9)
    with pytest.raises(UserError, match=r"10 positions.*encoding\.max_length=9"):
        positions_needed(model, 9, 10)
    with pytest.raises(LengthError, match=r"10 positions exceeds encoding\.max_length=9 .*max_length=10 or more"):
        model(*batch())
    assert make("deberta").max_positions() is None


@pytest.mark.parametrize("options", [{"share": "stack"}, {"layers": [1]}], ids=str)
def test_counting_layers_leaves_no_choice_of_them(options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"^encoding: .*encoding\.share=stack and encoding\.layers can't be set"):
        build_model(config("deberta", absolute_last=1, **options), SOURCES, TARGETS, PAD)
    build_model(config("deberta", absolute_last=1, share="layer"), SOURCES, TARGETS, PAD)
    build_model(config("deberta", **options), SOURCES, TARGETS, PAD)


def test_cross_attention_has_no_last_layers() -> None:
    with pytest.raises(OptionError, match=r"absolute_last=1 must be 0 in cross-attention"):
        make("deberta", "cross", absolute_last=1)
