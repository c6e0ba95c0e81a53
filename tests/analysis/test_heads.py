"""The figures of heads whose attention and bias are known."""

import math

import numpy as np
import pytest
import torch

from relformer.analysis.heads import attention_figures, describe, entropies, of_weights, word
from relformer.analysis.position_map import PositionPart, position_parts
from tests.analysis.test_position_map import probe
from tests.model.models import build

LENGTH, TRAINED = 13, 6


def weights(kind: str, causal: bool = False) -> torch.Tensor:
    """(1, 1, L, L) of a head that does one thing."""
    distance = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)
    at = {
        "first token": (torch.arange(LENGTH) == 0).expand(LENGTH, -1),
        "local": distance.abs() <= 1,
        "uniform": distance >= 0 if causal else torch.ones(LENGTH, LENGTH, dtype=torch.bool),
        "past": (distance > 3) | (torch.arange(LENGTH) == 0),
        "future": (distance < -2) | (torch.arange(LENGTH) == LENGTH - 1),
    }[kind]
    at = at.clone()
    if kind == "past":
        at[:, 0] = distance[:, 0] < 4
    return (at / at.sum(-1, keepdim=True))[None, None]


@pytest.mark.parametrize("kind", ["first token", "local", "uniform", "past", "future"])
def test_words(kind: str) -> None:
    mean = weights(kind)
    trained = 12 if kind == "past" else TRAINED
    figures = of_weights(mean[0], torch.full((LENGTH,), LENGTH), trained, entropies(mean))
    assert word({name: float(value) for name, value in figures.items()}) == kind


def test_a_causal_head_is_uniform_by_what_it_sees() -> None:
    mean = weights("uniform", causal=True)
    figures = of_weights(mean[0], torch.arange(LENGTH) + 1, TRAINED, entropies(mean))
    assert float(figures["evenness"]) == pytest.approx(1)
    assert float(figures["entropy"]) == pytest.approx(np.mean([math.log(n + 1) for n in range(3, 7)]))
    assert float(figures["distance"]) == pytest.approx(np.mean([n / 2 for n in range(3, 7)]))
    late = [(i - TRAINED) / (i + 1) for i in range(TRAINED + 1, LENGTH)]
    assert float(figures["beyond"]) == pytest.approx(np.mean(late))
    assert float(figures["first"]) == pytest.approx(np.mean([1 / (n + 1) for n in range(3, 7)]))


def test_the_shape_of_a_bias() -> None:
    distance = np.arange(1 - LENGTH, LENGTH)
    profiles = np.stack([-0.5 * np.abs(distance), np.where(distance % 2, 1.0, 0.0)])[None].astype(np.float32)
    part = PositionPart(np.zeros((1, 2, LENGTH, LENGTH), np.float32), np.ones((1, 2), np.float32), profiles)
    names = ("entropy", "evenness", "distance", "first", "near", "past", "beyond")
    figures = {name: np.zeros((1, 2), np.float32) for name in names}
    line, comb = describe(part, figures, TRAINED)[0]
    assert (line.range, line.slope, line.oscillation) == (pytest.approx(3), pytest.approx(-0.5), pytest.approx(0))
    assert (comb.range, comb.oscillation) == (1, 5)  # up and down six times, one of which its range explains


def test_a_table_is_taken_as_it_is() -> None:
    """Not as it was measured; where one serves both layers, in both."""
    distance = np.arange(1 - LENGTH, LENGTH)
    profiles = np.random.default_rng(0).normal(size=(2, 1, 2 * LENGTH - 1)).astype(np.float32)
    table = (-0.25 * np.abs(distance))[None, None].astype(np.float32)
    part = PositionPart(np.zeros((2, 1, LENGTH, LENGTH), np.float32), np.ones((2, 1), np.float32), profiles, table)
    names = ("entropy", "evenness", "distance", "first", "near", "past", "beyond")
    found = describe(part, {name: np.zeros((2, 1), np.float32) for name in names}, TRAINED)
    assert [(layer[0].slope, layer[0].oscillation) for layer in found] == [(pytest.approx(-0.25), 0)] * 2


def test_of_a_model() -> None:
    """A strong ALiBi is local in every head of a layer whose queries and keys are silent."""
    model = build("alibi", model={"heads": 1})
    with torch.no_grad():
        for layer in model.encoder.layers:
            layer.attention.query.weight.zero_()
        for encoding in model.encoder.slot:
            encoding.log_slopes.fill_(math.log(2.0))
    framed = probe().framed(True, 4)
    figures = attention_figures(model, framed, dict.fromkeys(("encoder", "decoder", "cross"), TRAINED))
    heads = describe(position_parts(model, probe())["encoder"], figures["encoder"], TRAINED)
    assert [layer[0].word for layer in heads] == ["local", "local"]
    assert heads[0][0].slope == pytest.approx(-2, abs=1e-4)
    assert figures["decoder"]["entropy"].shape == figures["cross"]["first"].shape == (2, 1)
