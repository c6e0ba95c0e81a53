"""Samplers: the laws of what they draw, one draw a row or a batch, and what stands still in evaluation."""

import pytest
import torch

from relformer.encodings import LengthError, Positions
from relformer.model import build_model
from relformer.seeding import seed_generators
from tests.encodings.calls import CPU, make

ROWS = 4000


def drawn(name: str, length: int, batch: int = ROWS, training: bool = True, **options: object) -> Positions:
    encoding = make(name, **options)  # type: ignore[arg-type]
    encoding.train(training)
    with torch.random.fork_rng(devices=[]):
        seed_generators(5)
        return encoding.positions(length, batch, CPU)


def test_shifts_are_uniform_and_a_sequence_keeps_its_distances() -> None:
    found = drawn("shape", 4, max_shift=5)
    assert isinstance(found, torch.Tensor) and found.shape == (ROWS, 4)
    assert (found.diff(dim=-1) == 1).all()
    counts = found[:, 0].bincount(minlength=5)
    assert len(counts) == 5 and (counts - ROWS / 5).abs().max() < 5 * (ROWS * 0.2 * 0.8) ** 0.5


def test_evaluation_shifts_all_alike() -> None:
    assert drawn("shape", 4, training=False, max_shift=5) == range(5, 9)
    assert drawn("shape", 4, training=False, max_shift=5, eval_shift="zero") == range(4)
    assert drawn("shape", 4, max_shift=0) == range(4)


@pytest.mark.parametrize(("rows", "draws"), [("batch", 1), ("sample", ROWS)])
def test_a_random_subset_rises_and_every_position_is_as_likely(rows: str, draws: int) -> None:
    found = drawn("randomized", 3, max_position=8, eval_length=4, rows=rows)
    assert isinstance(found, torch.Tensor) and found.shape == (draws, 3)
    assert (found.diff(dim=-1) > 0).all() and found.min() >= 0 and found.max() < 8
    if rows == "sample":
        counts = found.flatten().bincount(minlength=8)
        assert (counts - ROWS * 3 / 8).abs().max() < 5 * (ROWS * 3 / 8 * 5 / 8) ** 0.5


def test_evaluation_spreads_begins_or_draws() -> None:
    options = {"max_position": 8, "eval_length": 4}
    spread = drawn("randomized", 4, training=False, **options)
    assert isinstance(spread, torch.Tensor) and spread.tolist() == [[0, 2, 4, 6]]
    assert drawn("randomized", 4, training=False, eval="first", **options) == range(4)
    sampled = drawn("randomized", 4, training=False, eval="sample", **options)
    assert isinstance(sampled, torch.Tensor) and (sampled.diff(dim=-1) > 0).all()
    with pytest.raises(LengthError, match=r"a sequence of 5 positions .* needs encoding.max_position=9"):
        drawn("randomized", 5, training=False, **options)
    encoding = make("randomized", **options)  # type: ignore[arg-type]
    assert encoding.shortage(5) == ("encoding.eval_length", 4, 5)
    assert encoding.shortage(9) == ("encoding.max_position", 8, 9)


def test_a_longer_plan_is_what_the_positions_reach() -> None:
    """Dynamic NTK stretches by the largest position, not by how many tokens there are."""
    scaling = {"type": "dynamic_ntk", "original_length": 8, "factor": 2.0}
    parts = [{"name": "shape", "max_shift": 50, "table": "none"}, {"name": "rope", "scaling": scaling}]
    model = {"seed": 0, "model": {"width": 16, "heads": 2}}
    compose = {"name": "compose", "parts": parts}
    slot = build_model(model | {"encoding": compose}, 5, 5).eval().slots["encoder"]
    assert slot.span_length(slot.positions(6, 2, CPU)) == 56
    plain = build_model(model | {"encoding": {**compose, "parts": [parts[0], {"name": "rope"}]}}, 5, 5).eval()
    assert plain.slots["encoder"].span_length(slot.positions(6, 2, CPU)) == 6
