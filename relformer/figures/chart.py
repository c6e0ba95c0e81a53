"""Line charts in milliseconds: one layout, drawn as SVG for pages and as PNG for logs while training runs.

matplotlib takes a tenth of a second a picture, too much for what is drawn many times during a run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from relformer.figures.length_curve import DASHES, PALETTE

Point = tuple[float, float]
LETTER = 5.8
"""Width of a letter at size 11, on average."""
LEGEND_LINE = 16


@dataclass(frozen=True)
class Series:
    """One line; NaN leaves a gap. `low` and `high` are the ends of a band, `dots` marks each point."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    dots: bool = False
    style: int | None = None
    """Colour and dash by number; None takes the place among the chart's lines."""


@dataclass(frozen=True)
class Chart:
    """Lines over labelled axes, with vertical marks at some x. `y_range` None follows the data."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    marks: Sequence[tuple[float, str]] = ()
    y_range: tuple[float, float] | None = None
    width: int = 440
    height: int = 280


@dataclass(frozen=True)
class Stroke:
    """A line through points; `role` is axis, grid, mark, or the number of a series' style."""

    points: list[Point]
    role: str | int
    label: str = ""


@dataclass(frozen=True)
class Band:
    """The area between two lines."""

    points: list[Point]
    role: int


@dataclass(frozen=True)
class Dot:
    at: Point
    role: int
    label: str


@dataclass(frozen=True)
class Text:
    """`anchor` is start, middle or end; `turned` runs upwards."""

    at: Point
    text: str
    anchor: str = "start"
    size: int = 11
    turned: bool = False


Shape = Stroke | Band | Dot | Text


def colour_of(role: str | int) -> str:
    if isinstance(role, int):
        return PALETTE[role % len(PALETTE)]
    return {"axis": "#555555", "grid": "#E6E6E6", "mark": "#777777"}[role]


def dash_of(role: str | int) -> str:
    """matplotlib's name of a dash. It changes after every four lines, so that no two of 32 share colour and dash and
    those of like colour (the two blues) differ in it."""
    if isinstance(role, int):
        return DASHES[(role // 4 + role // 16) % len(DASHES)]
    return ":" if role == "mark" else "-"


def shapes(chart: Chart) -> tuple[list[Shape], int]:
    """What is drawn, in pixels from the upper left, and the height it takes with its legend."""
    left, right, top, bottom = 58.0, chart.width - 14.0, 40.0, chart.height - 42.0
    x_range, y_range = extent(chart)
    x_ticks, y_ticks = ticks(*x_range, 7), ticks(*y_range, 5)

    def place(x: float, y: float) -> Point:
        return (
            left + (x - x_range[0]) / (x_range[1] - x_range[0]) * (right - left),
            bottom - (y - y_range[0]) / (y_range[1] - y_range[0]) * (bottom - top),
        )

    found: list[Shape] = [Text((left, 16), chart.title, size=12)]
    for y in y_ticks:
        at = place(x_range[0], y)
        found += [Stroke([at, (right, at[1])], "grid"), Text((left - 6, at[1] + 4), short(y), "end", 10)]
    for x in x_ticks:
        at = place(x, y_range[0])
        found += [Stroke([at, (at[0], at[1] + 4)], "axis"), Text((at[0], bottom + 17), short(x), "middle", 10)]
    found.append(Stroke([(left, top), (left, bottom), (right, bottom)], "axis"))
    for x, name in chart.marks:
        if x_range[0] <= x <= x_range[1]:
            at = place(x, y_range[1])
            found += [Stroke([at, (at[0], bottom)], "mark"), Text((at[0], top - 4), name, "middle", 10)]
    for number, series in enumerate(chart.series):
        found += drawn(series, number if series.style is None else series.style, place)
    found.append(Text(((left + right) / 2, chart.height - 8), chart.x_label, "middle"))
    found.append(Text((14, (top + bottom) / 2), chart.y_label, "middle", turned=True))
    legend, height = keys(chart, left)
    return found + legend, height


def drawn(series: Series, style: int, place: object) -> Iterator[Shape]:
    """A series' band, its pieces between gaps, and its dots."""
    assert callable(place)
    rows = [(x, y) for x, y in zip(series.x, series.y, strict=True) if math.isfinite(x)]
    if series.low is not None and series.high is not None:
        bounds = [b for b in zip(series.x, series.low, series.high, strict=True) if all(map(math.isfinite, b))]
        edge = [place(x, low) for x, low, _ in bounds] + [place(x, high) for x, _, high in reversed(bounds)]
        yield Band(edge, style)
    piece: list[Point] = []
    for x, y in [*rows, (math.nan, math.nan)]:
        if math.isfinite(y):
            piece.append(place(x, y))
            continue
        if len(piece) == 1 and not series.dots:
            yield Dot(piece[0], style, series.label)
        elif len(piece) > 1:
            yield Stroke(piece, style, series.label)
        piece = []
    if series.dots:
        yield from (
            Dot(place(x, y), style, f"{series.label}: {short(x)}, {y:.4g}") for x, y in rows if math.isfinite(y)
        )


def keys(chart: Chart, left: float) -> tuple[list[Shape], int]:
    """The legend below the chart, and the height of both; a single line needs none."""
    found: list[Shape] = []
    if len(chart.series) < 2:
        return found, chart.height
    x, y = left, chart.height + 8.0
    for number, series in enumerate(chart.series):
        wide = 38 + LETTER * len(series.label)
        if x > left and x + wide > chart.width:
            x, y = left, y + LEGEND_LINE
        style = number if series.style is None else series.style
        found += [Stroke([(x, y - 4), (x + 18, y - 4)], style), Text((x + 23, y), series.label)]
        x += wide
    return found, round(y) + 8


def extent(chart: Chart) -> tuple[tuple[float, float], tuple[float, float]]:
    """The ends of both axes; what has no width is given some."""
    xs = [x for series in chart.series for x in series.x if math.isfinite(x)]
    ys = [y for s in chart.series for y in (*s.y, *(s.low or ()), *(s.high or ())) if math.isfinite(y)]
    return widened(min(xs, default=0.0), max(xs, default=1.0), 0.0), (
        chart.y_range or widened(min(ys, default=0.0), max(ys, default=1.0), 0.05)
    )


def widened(low: float, high: float, share: float) -> tuple[float, float]:
    if high - low < 1e-9 * max(1.0, abs(low)):
        return low - 0.5, high + 0.5
    return low - share * (high - low), high + share * (high - low)


def ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers between the ends, at most about `most` of them."""
    raw = (high - low) / most
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * m for m in (1, 2, 5, 10) if unit * m >= raw)
    return [n * step for n in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def short(value: float) -> str:
    return f"{value:.6g}" if abs(value) < 1e5 else f"{value / 1000:.6g}k"
