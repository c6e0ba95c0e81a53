"""The parts of a traced call against the model's own numbers, for every encoding in every slot that takes it."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from relformer.analysis.trace import trace_calls
from relformer.analysis.watch import watch
from relformer.encodings import Role
from relformer.model import Seq2Seq
from tests.model.models import PLACES, SOURCES, TARGETS, build

SOURCE, TARGET = 7, 9


def pair() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    source = torch.randint(3, SOURCES, (1, SOURCE), generator=generator)
    return source, torch.randint(3, TARGETS, (1, TARGET), generator=generator)


@torch.no_grad()
def used(model: Seq2Seq, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Role, int, Tensor, Tensor]]:
    """Slot, layer, masked logits and weights as the dense kernel meets them at its softmax."""
    slots: list[tuple[Role, int]] = []
    softmaxes: list[tuple[Tensor, Tensor]] = []
    softmax = Tensor.softmax

    def noted(self: Tensor, *arguments: Any, **options: Any) -> Tensor:
        weights = softmax(self, *arguments, **options)
        softmaxes.append((self[0], weights[0]))
        return weights

    monkeypatch.setattr(Tensor, "softmax", noted)
    with watch(model, lambda role, layer, call: slots.append((role, layer))):
        model(*pair())
    monkeypatch.undo()
    return [(*slot, *numbers) for slot, numbers in zip(slots, softmaxes, strict=True)]


@pytest.mark.parametrize("place", PLACES)
def test_the_parts_sum_to_the_logits_the_model_used(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(place, backend="dense")
    torch.manual_seed(0)  # as a trace does, for samplers that draw in evaluation
    expected = used(model, monkeypatch)
    traced = trace_calls(model, *pair())
    assert len(expected) == len(traced) == 6
    for (slot, layer, logits, weights), call in zip(expected, traced, strict=True):
        assert (slot, layer) == (call.slot, call.layer)
        torch.testing.assert_close(call.logits, logits.float(), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(call.weights, weights.float(), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(call.logits.softmax(-1), call.weights, atol=1e-5, rtol=1e-5)
        if slot == "decoder":
            assert (call.mask.triu(1) < 0).sum() >= 3 * TARGET * (TARGET - 1) / 2 and not call.weights.triu(1).any()


@pytest.mark.parametrize("name", ["t5", "alibi", "simple_bias", "kerple_log"])
def test_the_position_part_of_a_table_is_the_table(name: str) -> None:
    model = build(name)
    for call in trace_calls(model, *pair()):
        queries, keys = call.position.shape[-2:]
        distance = torch.arange(queries)[:, None] - torch.arange(keys)
        expected = torch.zeros(())
        if call.slot != "cross":
            encoding = list(model.slots[call.slot])[model.slots[call.slot].of_layer[call.layer]]
            table = encoding.table(distance.flatten())
            assert table is not None
            expected = table.detach().unflatten(-1, distance.shape)
        torch.testing.assert_close(call.position, expected.expand_as(call.position), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["none", "sinusoidal", "learned"])
def test_what_acts_elsewhere_has_no_position_part(name: str) -> None:
    for call in trace_calls(build(name), *pair()):
        assert call.position.abs().max() < 1e-5 and call.content.abs().max() > 0.1


def test_content_is_the_product_of_what_was_not_turned() -> None:
    """Under rope without frequencies to speak of, all is content; under rope itself the diagonal is."""
    still, turning = (trace_calls(build("rope", base=base), *pair()) for base in (1e30, 10000.0))
    for call in still:
        assert call.position[:, 0, 0].abs().max() < 1e-5
    for call in turning:
        if call.slot != "cross":
            assert call.position.diagonal(dim1=-2, dim2=-1).abs().max() < 1e-5
            assert call.position.abs().max() > 0.1


def test_positions_read_by_queries_and_keys_are_no_content() -> None:
    """With inject=qk the content is that of the same weights without positions, in the first layer."""
    learned, none = (trace_calls(build(n, **o), *pair()) for n, o in (("learned", {"inject": "qk"}), ("none", {})))
    for one, other in ((learned[0], none[0]), (learned[2], none[2])):
        assert one.layer == 0 and one.slot in ("encoder", "decoder")
        torch.testing.assert_close(one.content, other.content)
        assert one.position.abs().max() > 0.1 and other.position.abs().max() < 1e-5


def test_a_trace_leaves_the_model_as_it_was() -> None:
    model = build("t5", model={"dropout": 0.2}).train()
    state = torch.random.get_rng_state()
    trace_calls(model, *pair())
    assert torch.equal(state, torch.random.get_rng_state()) and model.training
    attention = model.encoder.layers[0].attention
    assert attention.backend == "auto" and attention.observer is None and not attention._forward_pre_hooks


def test_padding_is_masked() -> None:
    source, target = pair()
    for call in trace_calls(build("t5"), F.pad(source, (0, 2)), target):
        if call.slot != "decoder":
            assert (call.mask[..., SOURCE:] < -1e30).all() and not call.mask[..., :SOURCE].any()
            assert not call.weights[..., SOURCE:].any()
