"""The options of a model: norms, feed-forwards, tying, biases, starts, dropout; and what is refused."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from relformer.errors import OptionError, UserError
from relformer.model import ModelOptions, build_model
from relformer.model.layers import FeedForward
from tests.encodings.calls import randn
from tests.model.models import (
    PAD,
    SIZES,
    SOURCES,
    batch,
    build,
    check_cache,
    check_causal,
    check_padding,
    config,
    loss_of,
)

GATED = ("reglu", "geglu", "geglu_tanh", "swiglu")
VARIANTS: list[dict[str, Any]] = [
    {"norm": "post"},
    {"norm_type": "rms"},
    {"norm": "post", "norm_type": "rms"},
    *({"activation": a} for a in ("gelu", "gelu_tanh", "silu", *GATED)),
    {"tie": "none"},
    {"embedding_scale": "output"},
    {"embedding_scale": "none", "embedding_norm": True},
    {"feedforward_bias": False, "activation": "geglu"},
    {"output_bias": True},
    {"output_bias": True, "tie": "none"},
    {"head_dim": 5},
    *({"attention_bias": b} for b in ("qk", "qkv", "all")),
    *({"attention_init": a} for a in ("xavier_packed", "t5")),
    {"encoder_layers": 1, "decoder_layers": 3},
    {"encoder_layers": 2, "decoder_layers": 3, "share_layers": True},
    {"width": 12, "heads": 1},
    {"dropout": 0.5, "attention_dropout": 0.5, "feedforward_dropout": 0.5},
]


@pytest.mark.parametrize("model", VARIANTS, ids=str)
def test_every_option_keeps_cache_padding_and_causality(model: dict[str, Any]) -> None:
    built = build("t5", model=model)
    check_cache(built)
    check_padding(built)
    check_causal(built)


@pytest.mark.parametrize("model", VARIANTS, ids=str)
def test_every_option_trains_every_weight(model: dict[str, Any]) -> None:
    built = build("alibi", model=model)
    loss_of(built, *batch()).backward()
    for name, p in built.named_parameters():
        assert p.grad is not None, name
        if not name.endswith("attention.key.bias"):  # moves all logits of a row alike
            assert (p.grad != 0).any(), name


@pytest.mark.parametrize("norm_type", ["layer", "rms"])
@pytest.mark.parametrize("norm", ["pre", "post"])
@torch.no_grad()
def test_states_leave_the_stacks_normed(norm: str, norm_type: str) -> None:
    model = build("none", model={"norm": norm, "norm_type": norm_type})
    states = model.encode(batch()[0]).states
    square = states.square().mean(-1)
    torch.testing.assert_close(square, torch.ones_like(square), rtol=1e-3, atol=1e-3)
    centred = states.mean(-1).abs().max() < 1e-5
    assert centred == (norm_type == "layer")
    assert isinstance(model.encoder.norm, nn.Identity) == (norm == "post")
    kind = nn.LayerNorm if norm_type == "layer" else nn.RMSNorm
    assert isinstance(model.encoder.layers[0].attention_branch.norm, kind)


@torch.no_grad()
def test_pre_and_post_norm_wrap_the_branch_differently() -> None:
    x = randn(2, 3, 24)
    before = build("none", model={"norm": "pre"}).encoder.layers[0].attention_branch
    after = build("none", model={"norm": "post"}).encoder.layers[0].attention_branch
    torch.testing.assert_close(before(x, lambda y: 2 * y), x + 2 * F.layer_norm(x, (24,)))
    torch.testing.assert_close(after(x, lambda y: 2 * y), F.layer_norm(3 * x, (24,)))


@pytest.mark.parametrize(
    ("activation", "function"),
    [
        ("relu", F.relu),
        ("gelu", F.gelu),
        ("gelu_tanh", partial(F.gelu, approximate="tanh")),
        ("silu", F.silu),
        ("reglu", F.relu),
        ("geglu", F.gelu),
        ("geglu_tanh", partial(F.gelu, approximate="tanh")),
        ("swiglu", F.silu),
    ],
)
def test_feedforward(activation: Any, function: Any) -> None:
    made, x = FeedForward(ModelOptions(**SIZES, activation=activation)), randn(2, 3, 24)
    hidden = made.inner(x)
    if activation in GATED:
        assert made.gate is not None
        hidden = function(F.linear(x, made.gate.weight, made.gate.bias)) * hidden
    else:
        assert made.gate is None
        hidden = function(hidden)
    torch.testing.assert_close(made(x), made.outer(hidden))


@torch.no_grad()
def test_tying() -> None:
    free, decoder = build("none", model={"tie": "none"}), build("none", model={"tie": "decoder"})
    every = build_model(config("none", model={"tie": "all"}), SOURCES, SOURCES, PAD)
    assert free.output is not None
    assert free.output.weight is not free.target_embedding.weight
    assert decoder.output is None
    assert every.output is None
    assert decoder.source_embedding is not decoder.target_embedding
    assert every.source_embedding is every.target_embedding
    source, target = batch()
    before = decoder(source, target)
    states = decoder.decoder(decoder.target_embedding(target) * 24**0.5, target, decoder.start(source, target.shape[1]))
    torch.testing.assert_close(before, states @ decoder.target_embedding.weight.T)


def test_one_vocabulary_is_needed_to_tie_all() -> None:
    with pytest.raises(UserError, match=r"model\.tie=all .*11 tokens.*12; choose model\.tie=decoder"):
        build_model(config("none", model={"tie": "all"}), 11, 12, PAD)


@torch.no_grad()
def test_tokens_enter_the_stacks_with_deviation_one() -> None:
    model = build_model(config("none", model={"width": 60}), 2000, 2000, PAD)
    assert float((model.source_embedding.weight * model.embed_scale).std()) == pytest.approx(1, rel=0.02)


@pytest.mark.parametrize(
    ("choice", "biased"),
    [("none", ""), ("qk", "query key"), ("qkv", "query key value"), ("all", "query key value out")],
)
def test_attention_bias(choice: str, biased: str) -> None:
    layer = build("none", model={"attention_bias": choice}).decoder.layers[0]
    for attention in (layer.attention, layer.cross_attention):
        for part in ("query", "key", "value", "out"):
            bias = getattr(attention, part).bias
            assert (bias is not None) == (part in biased.split())
            assert bias is None or (bias == 0).all()


def test_attention_starts() -> None:
    sizes = {"width": 64, "heads": 4}
    start = {
        law: build("none", model=sizes | {"attention_init": law}).encoder.layers[0].attention
        for law in ("xavier", "xavier_packed", "t5")
    }
    theirs = nn.MultiheadAttention(64, 4)
    bound = (6 / 128) ** 0.5
    for part in ("query", "key", "value", "out"):
        most = {law: float(getattr(attention, part).weight.detach().abs().max()) for law, attention in start.items()}
        assert 0.99 * bound < most["xavier"] <= bound
        packed = bound if part == "out" else float(theirs.in_proj_weight.detach().abs().max())
        assert most["xavier_packed"] == pytest.approx(packed, rel=0.01)
        expected = (64 * 16) ** -0.5 if part == "query" else 64**-0.5
        assert float(getattr(start["t5"], part).weight.detach().std()) == pytest.approx(expected, rel=0.05)


@torch.no_grad()
def test_packed_projections_keep_positions_of_a_post_norm_encoder_apart() -> None:
    def alike(law: str) -> float:
        sizes = {"width": 128, "heads": 4, "encoder_layers": 6, "norm": "post", "attention_init": law}
        x = F.normalize(build("sinusoidal", model=sizes).encode(torch.arange(3, 11)[None]).states[0], dim=-1)
        return float((x @ x.T).fill_diagonal_(0).sum() / (8 * 7))

    assert alike("xavier_packed") < alike("xavier") - 0.05


@pytest.mark.parametrize("kind", ["dropout", "attention_dropout", "feedforward_dropout"])
@pytest.mark.parametrize("backend", ["dense", "sdpa"])
@torch.no_grad()
def test_dropout_acts_in_training_alone(kind: str, backend: str) -> None:
    model, (source, target) = build("alibi", model={kind: 0.5}, backend=backend), batch()
    plain = build("alibi", backend=backend)(source, target)
    torch.testing.assert_close(model(source, target), plain)
    torch.manual_seed(0)
    model.train()
    first, second = model(source, target), model(source, target)
    assert not torch.allclose(first, second, atol=1e-2)
    torch.manual_seed(0)
    torch.testing.assert_close(model(source, target), first)


@pytest.mark.parametrize(
    ("option", "value", "rule"),
    [
        ("heads", 5, "does not divide model.width=24; choose a divisor such as 4 or 6"),
        ("heads", 0, "must be at least 1"),
        ("width", 0, "must be at least 1"),
        ("encoder_layers", -1, "must be at least 0"),
        ("feedforward", -2, "must be at least 1"),
        ("dropout", 1.0, "must lie in"),
        ("attention_dropout", -0.1, "must lie in"),
        ("feedforward_dropout", 2.0, "must lie in"),
    ],
)
def test_sizes_that_cannot_be_are_refused(option: str, value: Any, rule: str) -> None:
    with pytest.raises(OptionError) as caught:
        ModelOptions(**SIZES | {option: value})
    assert str(caught.value).startswith(f"model.{option}={value!r} {rule}")


@torch.no_grad()
def test_where_the_embeddings_are_scaled() -> None:
    """By sqrt(E) on input, by its inverse on what the output layer reads, or nowhere: starts keep one deviation."""
    source, target = batch()
    made = {how: build("none", model={"embedding_scale": how}) for how in ("input", "output", "none")}
    std = {how: float((m.target_embedding.weight * m.embed_scale).std()) for how, m in made.items()}
    assert std["input"] == pytest.approx(1, rel=0.1) and std["output"] == pytest.approx(1, rel=0.1)
    assert std["none"] == pytest.approx(24**-0.5, rel=0.1)
    moved = dict(made["input"].state_dict())
    for side in ("source", "target"):
        moved[f"{side}_embedding.weight"] = moved[f"{side}_embedding.weight"] * 24**0.5
    made["output"].load_state_dict(moved)
    torch.testing.assert_close(made["output"](source, target), made["input"](source, target))


@torch.no_grad()
def test_a_norm_where_the_embeddings_enter() -> None:
    model = build("learned", model={"embedding_norm": True, "norm": "post"})
    seen: list[torch.Tensor] = []
    model.encoder.layers[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    source = batch()[0]
    model.encode(source)
    rows = model.slots["encoder"].first.position_weight[: source.shape[1]]
    x = model.source_embedding(source) * 24**0.5 + rows
    torch.testing.assert_close(seen[0], F.layer_norm(x, (24,)))


@pytest.mark.parametrize("tie", ["none", "inputs", "decoder", "all"])
@torch.no_grad()
def test_fixed_biases_of_the_logits(tie: str) -> None:
    options = {"tie": tie, "output_bias": True}
    model = build_model(config("none", model=options), SOURCES, SOURCES, PAD).eval()
    source, target = batch()[0], batch()[1].clamp(max=SOURCES - 1)
    before = model(source, target)
    assert model.output_bias is not None and "output_bias" not in dict(model.named_parameters())
    model.output_bias[4] = 2.0
    with model.decoding():
        torch.testing.assert_close(model(source, target) - before, model.output_bias.expand_as(before))
    weight, bias = model.head
    torch.testing.assert_close(F.linear(model.states(source, target), weight, bias), model(source, target))
    assert (model.output is None) == (tie in ("decoder", "all"))
    assert (model.source_embedding is model.target_embedding) == (tie in ("inputs", "all"))


def test_heads_of_another_size_than_width_over_heads() -> None:
    options = ModelOptions(**SIZES | {"width": 25, "head_dim": 5})
    assert (options.head_size, options.inner_width) == (5, 15)
    with pytest.raises(OptionError, match=r"model.heads=3 does not divide model.width=25"):
        ModelOptions(**SIZES | {"width": 25})
    with pytest.raises(OptionError, match=r"model.head_dim=0 must be at least 1"):
        ModelOptions(**SIZES, head_dim=0)
