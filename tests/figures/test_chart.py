"""Charts: what is drawn where, as SVG and as pixels; gaps, ticks and legends."""

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from relformer.figures.chart import Chart, Dot, Series, Stroke, Text, colour_of, dash_of, shapes, ticks
from relformer.figures.chart_png import chart_pixels
from relformer.figures.chart_svg import chart_svg
from relformer.figures.labelled import labelled_heatmap
from relformer.figures.profiles import profile_charts

LINE = Series("one & <two>", [0, 1, 2, 3, 4], [0.0, 1.0, math.nan, 1.0, 0.0], dots=True)


def chart(*series: Series, **options: object) -> Chart:
    return Chart("a title", "steps", "loss (nats)", series, **options)  # type: ignore[arg-type]


def strokes(made: Chart) -> list[Stroke]:
    return [shape for shape in shapes(made)[0] if isinstance(shape, Stroke) and isinstance(shape.role, int)]


def test_a_gap_ends_a_line() -> None:
    first, second = strokes(chart(LINE))
    assert len(first.points) == len(second.points) == 2
    (x0, y0), (x1, y1) = first.points
    assert x1 > x0 and y1 < y0  # up is less
    assert len([shape for shape in shapes(chart(LINE))[0] if isinstance(shape, Dot)]) == 4


def test_axes_are_named_and_marks_stand_where_they_are() -> None:
    found, _ = shapes(chart(Series("a", [0, 10], [0, 1]), marks=[(5.0, "trained"), (50.0, "outside")]))
    texts = {shape.text for shape in found if isinstance(shape, Text)}
    assert {"a title", "steps", "loss (nats)", "trained"} <= texts and "outside" not in texts
    (mark,) = [shape for shape in found if isinstance(shape, Stroke) and shape.role == "mark"]
    (line,) = strokes(chart(Series("a", [0, 10], [0, 1])))
    assert mark.points[0][0] == pytest.approx((line.points[0][0] + line.points[1][0]) / 2)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]), (-3, 47, [0, 10, 20, 30, 40]), (5, 5.1, [5, 5.02, 5.04, 5.06, 5.08, 5.1])],
)
def test_ticks_are_round(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high, 5) == pytest.approx(expected)


@pytest.mark.parametrize("values", [[], [math.nan], [2.0], [2.0, 2.0]])
def test_nothing_much_to_draw(values: list[float]) -> None:
    made = chart(Series("a", list(range(len(values))), values))
    assert ElementTree.fromstring(chart_svg(made)).tag == "svg"
    assert chart_pixels([made]).shape == (made.height, made.width, 3)


def test_svg_is_well_formed_and_says_what_its_lines_are() -> None:
    root = ElementTree.fromstring(chart_svg(chart(LINE, Series("b", [0, 4], [0.5, 0.5], [0.4, 0.4], [0.6, 0.6]))))
    lines = [e for e in root.iter("polyline") if e.get("class", "").startswith("line s")]
    assert [e.findtext("title") for e in lines][:2] == ["one & <two>"] * 2
    assert len(list(root.iter("polygon"))) == 1
    assert not re.search(r"(href|src|url)", chart_svg(chart(LINE)))


def test_no_two_lines_look_alike() -> None:
    assert len({(colour_of(n), dash_of(n)) for n in range(32)}) == 32
    assert dash_of(0) != dash_of(4)  # blue and sky blue


def test_a_legend_takes_room_of_its_own() -> None:
    few, many = (shapes(chart(*(Series(f"head {n}", [0, 1], [0, 1]) for n in range(count))))[1] for count in (1, 20))
    assert many > few == chart().height


def test_pixels_show_the_colours_of_the_lines() -> None:
    pixels = chart_pixels([chart(Series("a", [0, 1], [0, 1]), Series("b", [0, 1], [1, 0]))]).astype(int)
    blue = (pixels[..., 2] - pixels[..., 0] > 120).sum()
    orange = (pixels[..., 0] - pixels[..., 2] > 120).sum()
    assert blue > 300 and orange > 300


def test_profiles_leave_out_what_no_pair_has_and_share_a_scale() -> None:
    profile = np.stack([np.full((2, 5), np.nan), np.full((2, 5), np.nan)])
    profile[..., 2:] = [0.0, 1.0, 2.0]
    profile[1] *= 10
    charts = profile_charts(profile, np.arange(-2, 3), 1, "decoder")
    assert [made.title for made in charts] == ["decoder, layer 1", "decoder, layer 2"]
    assert charts[0].y_range == charts[1].y_range == (-1.0, 21.0)
    assert charts[1].series[1].label == "head 2" and list(charts[1].series[1].x) == [0, 1, 2]
    assert [x for x, _ in charts[0].marks] == [1]


def test_labelled_maps_keep_their_colours() -> None:
    """Pure red in one head and pure blue in another, at their places, and white nowhere else inside."""
    maps = np.zeros((1, 2, 4, 4))
    maps[0, 0], maps[0, 1] = 9.0, -9.0
    pixels = labelled_heatmap(maps, 9.0, "bias").astype(int)
    red = (pixels[..., 0] == 103) & (pixels[..., 1] == 0) & (pixels[..., 2] == 31)
    blue = (pixels[..., 0] == 5) & (pixels[..., 1] == 48) & (pixels[..., 2] == 97)
    assert red.sum() >= 132**2 and blue.sum() >= 132**2
    assert red.nonzero()[1].min() < blue.nonzero()[1].min()
