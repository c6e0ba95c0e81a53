"""Compiled training: one graph for all lengths, the same numbers, and a model that is otherwise the same."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from relformer.model import Seq2Seq, build_model
from tests.model.models import PAD, SOURCES, TARGETS, config

LENGTHS = [(4, 10, 9), (4, 12, 9), (4, 15, 14), (3, 7, 30), (5, 21, 22), (2, 33, 8)]
"""Sizes of a batch, of its sources and its targets."""


def batch(size: int, source: int, target: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(source)
    return (
        torch.randint(2, SOURCES, (size, source), generator=generator),
        torch.randint(2, TARGETS, (size, target), generator=generator),
    )


class Counting:
    """A backend of torch.compile that runs graphs as they are, and counts them."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        self.graphs += 1
        return graph.forward


def built(**model: Any) -> Seq2Seq:
    return build_model(config("t5", model=model), SOURCES, TARGETS, PAD).train()


def gradients(model: Seq2Seq, sizes: tuple[int, int, int], seed: int = 0) -> dict[str, Tensor]:
    model.zero_grad()
    torch.manual_seed(seed)
    model(*batch(*sizes)).square().mean().backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch.compiler.reset()


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_one_graph_serves_every_length(norm: str) -> None:
    plain, compiled, backend = built(norm=norm), built(norm=norm), Counting()
    compiled.compile_training(backend=backend)
    for sizes in LENGTHS:
        torch.testing.assert_close(gradients(compiled, sizes), gradients(plain, sizes), rtol=1e-5, atol=1e-7)
    assert backend.graphs == 1


def test_evaluation_and_decoding_compile_nothing() -> None:
    model, backend = built(), Counting()
    model.compile_training(backend=backend)
    source, target = batch(4, 10, 9)
    model.eval()
    with torch.no_grad(), model.decoding():
        model(source, target)
        model.step(target[:, :1], model.start(source, 9))
    assert backend.graphs == 0


def test_a_compiled_model_has_the_parameters_of_a_plain_one_and_can_be_copied() -> None:
    model = built()
    names = list(model.state_dict())
    model.compile_training(backend=Counting())
    gradients(model, LENGTHS[0])
    assert list(model.state_dict()) == names
    copy = deepcopy(model)
    nn.init.zeros_(copy.encoder.layers[0].feedforward.outer.weight)  # type: ignore[union-attr, arg-type]
    assert not torch.equal(copy(*batch(*LENGTHS[0])), model(*batch(*LENGTHS[0])))


@pytest.mark.parametrize("rates", [{"dropout": 0.3}, {"feedforward_dropout": 0.3}])
def test_dropout_follows_from_the_seed(rates: dict[str, float]) -> None:
    model = built(**rates)
    model.compile_training(backend=Counting())
    first, again, other = (gradients(model, LENGTHS[0], seed) for seed in (0, 0, 1))
    assert all(torch.equal(one, two) for one, two in zip(first.values(), again.values(), strict=True))
    assert not all(torch.equal(one, two) for one, two in zip(first.values(), other.values(), strict=True))


@pytest.mark.slow
def test_the_compiler_itself() -> None:
    """Through Inductor, which needs a C++ compiler."""
    plain, compiled = built(), built()
    compiled.compile_training()
    for sizes in LENGTHS[:3]:
        torch.testing.assert_close(gradients(compiled, sizes), gradients(plain, sizes), rtol=1e-4, atol=1e-6)
