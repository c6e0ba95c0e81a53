"""Two runs with one seed and another encoding are a pair: the same shared weights, batches, dropout and tests."""

from collections.abc import Callable
from itertools import combinations, islice
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

import relformer.model.layers
import relformer.model.stack
from relformer.config import plain
from relformer.data.batching import Batch
from relformer.data.corpus import build_corpus, common_options
from relformer.data.datamodule import DataModule
from relformer.encodings.parameters import seed_of
from relformer.model import build_model
from tests.config.composed import composed
from tests.model.models import PAD, PLACES, SOURCES, TARGETS, batch, config

RATES = {"dropout": 0.3, "feedforward_dropout": 0.2}
ALL_RATES = RATES | {"attention_dropout": 0.4}

Masks = list[Tensor]


def masks_of(place: str, monkeypatch: pytest.MonkeyPatch, rates: dict[str, float], backend: str = "auto") -> Masks:
    """What dropout keeps in a training pass, as the training step seeds it: of every tensor that layers drop from."""
    made: Masks = []
    torch_dropout: Callable[..., Tensor] = torch.nn.functional.dropout

    def dropped(x: Tensor, rate: float, training: bool) -> Tensor:
        if not (training and rate):
            return x
        kept = torch_dropout(torch.ones_like(x), rate)
        made.append(kept.detach())
        return x * kept

    for module in (relformer.model.layers, relformer.model.stack):
        monkeypatch.setattr(module, "dropped", dropped)
    model = build_model(config(place, backend=backend, model=rates), SOURCES, TARGETS, PAD).train()
    torch.manual_seed(seed_of(1, "dropout", 0, 0, 0))
    model(*batch())
    return made


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("rates", [RATES, ALL_RATES], ids=["layers", "layers and attention"])
def test_dropout_is_one_stream_for_all(place: str, rates: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    expected = masks_of("none", monkeypatch, rates)
    found = masks_of(place, monkeypatch, rates)
    assert len(expected) > 10 and [mask.shape for mask in found] == [mask.shape for mask in expected]
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("place", ["randomized", "shape"])
def test_positions_are_drawn_anew_by_each_stack_and_pass(place: str) -> None:
    model = build_model(config(place), SOURCES, TARGETS, PAD).train()
    torch.manual_seed(7)
    encoder, decoder = model.slots["encoder"], model.slots["decoder"]
    drawn = [torch.as_tensor(slot.positions(5, 3, torch.device("cpu"))) for slot in (encoder, decoder, encoder)]
    assert not any(torch.equal(one, other) for one, other in combinations(drawn, 2))
    torch.manual_seed(7)
    assert torch.equal(drawn[0], torch.as_tensor(encoder.positions(5, 3, torch.device("cpu"))))


def test_another_seed_is_another_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    first = masks_of("rope", monkeypatch, RATES)
    torch_seed = torch.manual_seed
    monkeypatch.setattr(torch, "manual_seed", lambda seed: torch_seed(seed + 1))
    other = masks_of("rope", monkeypatch, RATES)
    assert not any(torch.equal(one, two) for one, two in zip(first, other, strict=True))


@pytest.mark.parametrize("encoding", ["none", "rope", "transformer_xl", "randomized"])
def test_batches_and_tests_are_the_same_for_all(encoding: str) -> None:
    expected, found = batches("t5"), batches(encoding)
    assert len(found) == len(expected) > 20
    for one, other in zip(found, expected, strict=True):
        assert one.tokens == other.tokens
        for name in ("index", "source", "target", "labels"):
            assert torch.equal(getattr(one, name), getattr(other, name)), name


def batches(encoding: str) -> list[Batch]:
    """The first batches of training and all of evaluation, as a run with this encoding and seed 3 sees them."""
    made = composed(f"encoding={encoding}", "seed=3")
    options = plain(made, "data")["data"]
    data = DataModule(build_corpus(options), common_options(options), made.seed)
    data.trainer = SimpleNamespace(global_rank=0, world_size=1, accumulate_grad_batches=1, global_step=0)  # type: ignore
    evaluated = [each for loader in (*data.val_dataloader(), *data.test_dataloader()) for each in loader]
    return [*islice(data.train_dataloader(), 20), *evaluated]
