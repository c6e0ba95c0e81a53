"""The length curve: axes, the trained length, grey points, bands and bad input."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from relformer.figures.length_curve import FEW_COLOUR, Curve, draw_length_curve

CURVE = Curve(
    "t5",
    [5.0, 15.0, 25.0],
    ["1-9", "10-19", "20-29"],
    [1.0, 0.5, 0.1],
    [0.9, 0.4, 0.0],
    [1.0, 0.6, 0.3],
    [900, 100, 99],
)


def grey_points(figure: Figure) -> list[list[float]]:
    lines = [line for line in figure.axes[0].get_lines() if to_hex(line.get_color()) == FEW_COLOUR.lower()]
    return [np.asarray(line.get_xdata()).tolist() for line in lines]


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_axes_legend_and_trained_length() -> None:
    figure = draw_length_curve([CURVE, replace(CURVE, label="alibi")], "SCAN", trained_length=22)
    axis = figure.axes[0]
    assert axis.get_ylim() == (0, 1)
    assert axis.get_xlabel() == "target length (tokens without BOS and EOS)"
    assert axis.get_title(loc="left") == "SCAN"
    assert [label.get_text() for label in axis.get_xticklabels()] == CURVE.labels
    assert [text.get_text() for text in axis.texts] == ["longest trained"]
    assert [22, 22] in [
        np.asarray(line.get_xdata()).tolist() for line in axis.get_lines() if line.get_linestyle() == ":"
    ]
    assert legend(figure) == ["t5", "alibi", "fewer than 100 examples"]


def test_only_points_below_100_examples_are_grey() -> None:
    assert grey_points(draw_length_curve([CURVE], "", 10)) == [[25.0]]
    many = draw_length_curve([replace(CURVE, n=[100, 100, 100])], "", 10)
    assert grey_points(many) == [[]]
    assert legend(many) == ["t5"]


def test_band_spans_low_to_high() -> None:
    corners = np.asarray(draw_length_curve([CURVE], "", 10).axes[0].collections[0].get_paths()[0].vertices).tolist()
    assert [25.0, 0.0] in corners
    assert [25.0, 0.3] in corners


def test_buckets_are_drawn_in_order_of_length() -> None:
    lists: dict[str, Any] = {
        key: list(reversed(getattr(CURVE, key))) for key in ("lengths", "labels", "value", "low", "high", "n")
    }
    turned = draw_length_curve([replace(CURVE, **lists)], "", 10)
    assert np.asarray(turned.axes[0].get_lines()[0].get_xdata()).tolist() == CURVE.lengths
    assert grey_points(turned) == [[25.0]]


def test_crowded_bucket_names_are_thinned() -> None:
    lengths = [float(x) for x in range(60)]
    curve = Curve(
        "x", lengths, [f"{x:.0f}-{x + 1:.0f}" for x in lengths], [0.5] * 60, [0.5] * 60, [0.5] * 60, [500] * 60
    )
    names = [label.get_text() for label in draw_length_curve([curve], "", 10).axes[0].get_xticklabels()]
    assert 5 < len(names) < 20


def test_empty_bucket_and_no_curve_can_be_drawn() -> None:
    gap = replace(
        CURVE, value=[1.0, 0.5, math.nan], low=[0.9, 0.4, math.nan], high=[1.0, 0.6, math.nan], n=[900, 100, 0]
    )
    figure = draw_length_curve([gap], "", 10)
    figure.canvas.draw()
    assert legend(figure) == ["t5"]
    draw_length_curve([], "", 10).canvas.draw()


def test_lists_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="one entry a bucket"):
        replace(CURVE, n=[1])


@pytest.mark.parametrize("width", [3.35, 7.2])
def test_a_legend_of_long_names_lies_within_the_figure(width: float) -> None:
    names = [f"26, relative positions, shared layers, {number}" for number in range(5)]
    curves = [Curve(name, [1.0, 2.0], ["1", "2"], [0.5] * 2, [0.4] * 2, [0.6] * 2, [200] * 2) for name in names]
    figure = draw_length_curve(curves, "", 2, width=width)
    figure.draw_without_rendering()
    extent = figure.legends[0].get_window_extent()
    assert extent.x0 >= 0 and extent.x1 <= figure.bbox.width


@pytest.mark.parametrize("trained_length", [0, 15, 40])
def test_the_note_of_the_trained_length_lies_within_the_figure(trained_length: int) -> None:
    figure = draw_length_curve([CURVE], "", trained_length, width=3.35)
    figure.draw_without_rendering()
    extent = figure.axes[0].texts[0].get_window_extent()
    assert extent.x0 >= 0 and extent.x1 <= figure.bbox.width
