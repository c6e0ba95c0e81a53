"""Source and target as one sequence: what holds of two stacks holds of one, with every encoding a decoder takes."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from relformer.decoding import DecodingOptions, decode, greedy
from relformer.encodings import LengthError
from relformer.errors import UserError
from relformer.model import DecoderOnly, ModelOptions, build_model, positions_needed
from relformer.registry import encodings
from tests.model.models import BOS, PAD, SMALL, SOURCES, TARGETS, batch, enliven, node, sizes, stepwise

EOS = 2
ONE_STACK = {"encoder_layers": 0}
NAMES = [name for name in encodings if "decoder" not in encodings[name].cls.refuses]  # type: ignore[attr-defined]
KINDS = [(name, "causal") for name in NAMES] + [
    (name, "visible")
    for name in NAMES
    if "encoder" not in encodings[name].cls.refuses  # type: ignore[attr-defined]
]
"""Encodings with what a source token sees."""
LENGTHS = (9, 7, 4)
"""Of the sources of `batch`."""


def build(name: str, **model: Any) -> DecoderOnly:
    """With one vocabulary for encodings that have a row for each token, and tables that hold both sides."""
    table = {"max_length": 32} if SMALL.get(name, {}).get("max_length") == 24 else {}
    options = sizes(name) | ONE_STACK | ({"tie": "all"} if name == "complex" else {}) | model
    sources = TARGETS if options.get("tie") == "all" else SOURCES
    made = build_model({"seed": 1, "model": options, "encoding": node(name, **table)}, sources, TARGETS, PAD)
    assert isinstance(made, DecoderOnly)
    enliven(made)
    return made.eval()


@torch.no_grad()
def full(model: DecoderOnly, source: Tensor, target: Tensor) -> Tensor:
    """The whole pass; a sampler that draws in evaluation draws the same each time."""
    torch.manual_seed(0)
    return model(source, target)


@pytest.mark.parametrize(("name", "prefix"), KINDS)
def test_cached_is_uncached(name: str, prefix: str) -> None:
    """Each sentence through the cache, by itself and without padding, against the whole padded batch."""
    model, (source, target) = build(name, prefix=prefix), batch()
    expected = full(model, source, target)
    for row, length in enumerate(LENGTHS):
        for chunks in ([1] * 10, [4, 3, 1, 2]):
            torch.manual_seed(0)
            found = stepwise(model, source[row : row + 1, :length], target[row : row + 1], chunks)
            torch.testing.assert_close(found, expected[row : row + 1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("name", "prefix"), KINDS)
def test_padding_changes_nothing(name: str, prefix: str) -> None:
    model, (source, target) = build(name, prefix=prefix), batch()
    padded = full(model, F.pad(source, (0, 4), value=PAD), F.pad(target, (0, 3), value=PAD))
    torch.testing.assert_close(padded[:, :10], full(model, source, target), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("name", "prefix"), KINDS)
def test_no_token_sees_a_later_one_and_all_see_the_source(name: str, prefix: str) -> None:
    """The last token of each source is within reach of BOS, even of a window."""
    model, (source, target) = build(name, prefix=prefix), batch()
    expected = full(model, source, target)
    changed = target.clone()
    changed[:, 5] = changed[:, 5] % (TARGETS - 3) + 3
    found = full(model, source, changed)
    torch.testing.assert_close(found[:, :5], expected[:, :5], rtol=1e-5, atol=1e-5)
    assert not torch.allclose(found[:, 5:], expected[:, 5:], rtol=1e-3, atol=1e-3)
    last = torch.tensor(LENGTHS)[:, None] - 1
    other = source.scatter(1, last, source.gather(1, last) % (SOURCES - 3) + 3)
    moved = (full(model, other, target)[:, 0] - expected[:, 0]).abs().amax(-1)
    assert (moved > 1e-4).all()


@pytest.mark.parametrize("prefix", ["causal", "visible"])
def test_a_source_token_sees_those_before_it_or_the_whole_source(prefix: str) -> None:
    model, (source, _) = build("none", prefix=prefix), batch()
    changed = source[:1].clone()
    changed[:, 6] += 1
    states = []
    for each in (source[:1], changed):
        x, tokens = model.embedded(each, each[:, :0])["decoder"]
        states.append(model.decoder(x, tokens, model.opened(each, 0)))
    before = (states[0] - states[1])[:, :6].abs().amax(-1)
    assert (before > 1e-4).all() if prefix == "visible" else (before == 0).all()
    assert not torch.allclose(states[0][:, 6:], states[1][:, 6:])


def test_it_has_no_encoder_and_no_cross_attention() -> None:
    model = build("t5")
    assert list(model.slots) == list(model.stacks) == ["decoder"]
    assert not [name for name, _ in model.named_parameters() if "encoder." in name or "cross" in name]
    width, ff = ModelOptions(**sizes("t5")).width, ModelOptions(**sizes("t5")).feedforward
    layer = 4 * width**2 + 2 * width * ff + ff + width + 2 * 2 * width
    rest = (SOURCES + TARGETS) * width + 2 * width + model.position_parameters()
    assert sum(p.numel() for p in model.parameters()) == 2 * layer + rest


@pytest.mark.parametrize("prefix", ["causal", "visible"])
@pytest.mark.parametrize("name", ["none", "rope", "t5", "forgetting", "transformer_xl", "learned"])
def test_greedy_decoding_is_the_argmax_of_a_whole_pass(name: str, prefix: str) -> None:
    """Of sources of several lengths in one batch, each as by itself."""
    model, (source, _) = build(name, prefix=prefix), batch()
    found = greedy(model, source, 8, BOS, EOS)
    assert found.shape[1] > 1
    inputs = torch.cat([torch.full((3, 1), BOS), found[:, :-1]], dim=1)
    most = full(model, source, inputs).argmax(-1)
    for row, length in enumerate(LENGTHS):
        alone = greedy(model, source[row : row + 1, :length], 8, BOS, EOS)[0]
        written = len(alone)
        assert found[row, :written].tolist() == most[row, :written].tolist() == alone.tolist()
        assert (found[row, written:] == PAD).all()


@pytest.mark.parametrize("search", [{"beams": 3, "n_best": 2}, {"sample": True, "n_best": 2}])
def test_beams_and_samples_of_a_batch_are_those_of_each_sentence(search: dict[str, Any]) -> None:
    model, (source, _) = build("rope"), batch()
    options = DecodingOptions(**search, max_length_base=6, max_length_factor=0)
    prefix = torch.tensor([[5, 6], [7, PAD], [PAD, PAD]])
    together = decode(model, source, options, BOS, EOS, prefix)
    for row, length in enumerate(LENGTHS):
        (alone,) = decode(model, source[row : row + 1, :length], options, BOS, EOS, prefix[row : row + 1])
        assert [each.tokens for each in together[row]] == [each.tokens for each in alone]
        assert [each.score for each in together[row]] == pytest.approx([each.score for each in alone], abs=1e-4)


def test_a_table_must_hold_source_and_target() -> None:
    model, (source, _) = build("learned"), batch()
    positions_needed(model, 20, 12)
    with pytest.raises(LengthError, match=r"source with its target has 33 positions.*encoding\.max_length=32"):
        positions_needed(model, 20, 13)
    options = DecodingOptions(max_length_base=40, max_length_factor=0)
    with pytest.raises(LengthError, match="has 44 positions"):
        decode(model, source, options, BOS, EOS)
    found = decode(model, source, options, BOS, -1, fitting=True)
    assert [len(best.tokens) for (best,) in found] == [32 - length for length in LENGTHS]


def test_sources_of_several_lengths_do_not_share_a_cache() -> None:
    with pytest.raises(ValueError, match="of one length at a time"):
        build("none").start(batch()[0], 5)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"decoder_encoding": {"name": "rope"}}, "decoder_encoding=rope has no place in a decoder-only model"),
        ({"cross_encoding": {"name": "t5"}}, "cross_encoding=t5 has no place in a decoder-only model"),
        (
            {"encoding": {"name": "cope"}, "model": {"prefix": "visible"}},
            "encoding=cope can't serve model.prefix=visible",
        ),
        (
            {"encoding": {"name": "compose", "parts": [{"name": "xpos"}]}, "model": {"prefix": "visible"}},
            "encoding=xpos can't serve model.prefix=visible",
        ),
        ({"model": {"prefix": "visible", "encoder_layers": 2}}, "model.prefix='?visible'? is for a decoder-only model"),
        ({"encoding": {"name": "complex"}}, "encoding=complex has a row for each token.*model.tie=all"),
    ],
)
def test_what_one_stack_cannot_have_is_refused(config: dict[str, Any], message: str) -> None:
    model = sizes("t5") | ONE_STACK | config.get("model", {})
    with pytest.raises(UserError, match=message):
        build_model({"seed": 1, "encoding": {"name": "t5"}} | config | {"model": model}, SOURCES, TARGETS, PAD)


def test_its_parameters_learn() -> None:
    """Every parameter gets a gradient, the embeddings of both sides too."""
    model, (source, target) = build("shaw").train(), batch()
    model(source, target).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() and p.grad.any() for p in model.parameters())
