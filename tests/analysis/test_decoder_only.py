"""What is measured of a model whose one stack reads source and target in one sequence."""

import numpy as np
import pytest
import torch

from relformer.analysis.absolute_terms import absolute_terms
from relformer.analysis.position_map import position_parts
from relformer.analysis.probe import fitting
from relformer.analysis.receptive_field import receptive_field
from relformer.analysis.trace import trace_calls
from tests.analysis.test_position_map import LENGTH, probe
from tests.model.models import batch
from tests.model.test_decoder_only import build

BOTH = 2 * LENGTH
"""Tokens of the probe's sequences."""
UNSEEN = np.triu(np.ones((BOTH, BOTH), bool), 1) & (np.arange(BOTH) >= LENGTH)
"""Pairs that are not seen where the source is visible."""


def test_the_position_part_is_of_one_slot_and_both_sides() -> None:
    model = build("alibi")
    parts = position_parts(model, probe())
    assert list(parts) == ["decoder"]
    part = parts["decoder"]
    assert part.maps.shape == (2, 3, BOTH, BOTH)
    future = np.triu(np.ones((BOTH, BOTH), bool), 1)
    assert (np.isnan(part.maps) == future).all()
    expected = model.slots["decoder"].first.table(torch.arange(1 - BOTH, BOTH))
    assert part.table is not None and expected is not None
    unseen = np.arange(1 - BOTH, BOTH) < 0
    np.testing.assert_array_equal(part.table[0], np.where(unseen, np.nan, expected.numpy()))


def test_a_visible_source_has_both_sides_of_the_position_part() -> None:
    """A pair is seen if the key is before, or of the source; a table that is not of such a distance is not shown."""
    part = position_parts(build("alibi", prefix="visible"), probe())["decoder"]
    assert (np.isnan(part.maps) == UNSEEN).all()
    assert part.table is not None
    assert (np.isnan(part.table) == (np.arange(1 - BOTH, BOTH) < 1 - LENGTH)).all()


def test_a_trace_adds_up() -> None:
    source, target = (side[:1] for side in batch())
    model = build("t5")
    calls = trace_calls(model, source, target)
    assert [(call.slot, call.layer) for call in calls] == [("decoder", 0), ("decoder", 1)]
    tokens = source.shape[1] + target.shape[1]
    for call in calls:
        assert call.logits.shape == (3, tokens, tokens)
        torch.testing.assert_close(call.logits.softmax(-1), call.weights, rtol=1e-4, atol=1e-5)


def test_a_window_ends_the_field_across_both_sides() -> None:
    (field,) = receptive_field(build("window"), probe()).values()
    assert field.shape == (BOTH,)
    assert field[5] < 1 - 1e-4 and field[6] > 1 - 1e-5


def test_absolute_positions_have_four_terms_of_the_whole_sequence() -> None:
    found = absolute_terms(build("sinusoidal"), probe())
    assert list(found) == ["decoder"] and found["decoder"].shape == (4, 3, BOTH, BOTH)
    (visible,) = absolute_terms(build("sinusoidal", prefix="visible"), probe()).values()
    assert (np.isnan(visible[0, 0]) == UNSEEN).all()


@pytest.mark.parametrize(("wanted", "expected"), [(10, 10), (40, 16)])
def test_sentences_to_measure_fit_the_table_together(wanted: int, expected: int) -> None:
    """A table of 32 holds 16 tokens a side."""
    assert fitting(build("learned"), wanted) == expected
