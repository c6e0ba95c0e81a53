"""Pictures of benchmarks: lines over length on logarithmic axes, and bars by system, on white ground."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from relformer.benchmark.interleaved import Spread
from relformer.figures.length_curve import DASHES, MARKERS, PALETTE, text_size

PANEL = 4.6
"""Inches: the width of one panel."""
SMALL = text_size(PANEL)


@dataclass(frozen=True)
class Line:
    """A system over lengths."""

    label: str
    lengths: Sequence[int]
    values: Sequence[Spread]


@dataclass(frozen=True)
class Panel:
    """Lines that share their axes: ratios to `level` on a linear one, or sizes on a logarithmic one, where linear
    growth has slope 1 and quadratic growth slope 2."""

    title: str
    y_label: str
    lines: Sequence[Line]
    level: float | None = None


@dataclass(frozen=True)
class Bar:
    """A system's value; no bar where it was not measured."""

    label: str
    value: Spread


def draw_lines(panels: Sequence[Panel], x_label: str) -> Figure:
    """Panels two a line, over lengths on a logarithmic axis."""
    columns, lines = min(2, len(panels)), -(-len(panels) // 2)
    figure = Figure(figsize=(PANEL * columns, 3.4 * lines + 1.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(lines, columns, squeeze=False).flat)
    for spare in axes[len(panels) :]:
        spare.set_axis_off()
    axes = axes[: len(panels)]
    numbers: dict[str, int] = {}
    for axis, panel in zip(axes, panels, strict=True):
        for line in panel.lines:
            draw_line(axis, line, numbers.setdefault(line.label, len(numbers)))
        lengths = sorted({length for line in panel.lines for length in line.lengths})
        axis.set_xscale("log", base=2)
        axis.set_xticks(lengths, [str(length) for length in lengths])
        axis.xaxis.set_minor_locator(NullLocator())
        if panel.level is None and all(value.low > 0 for line in panel.lines for value in line.values):
            axis.set_yscale("log")
            axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.yaxis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
            axis.yaxis.set_minor_locator(NullLocator())
        else:
            axis.set_ylim(bottom=0)
        if panel.level is not None:
            axis.axhline(panel.level, color="#555555", linestyle=":", linewidth=1.2, zorder=1)
        dressed(axis, panel.title, x_label, panel.y_label)
        axis.grid(axis="y", color="#E6E6E6", linewidth=0.8)
    handles = {str(h.get_label()): h for axis in axes for h in axis.get_legend_handles_labels()[0]}
    figure.legend(
        handles=list(handles.values()),
        loc="outside lower center",
        ncols=min(3 * columns, len(handles)),
        frameon=False,
        fontsize=SMALL,
    )
    return figure


def draw_line(axis: Axes, line: Line, number: int) -> None:
    colour = PALETTE[number % len(PALETTE)]
    middle = [value.median for value in line.values]
    low, high = [value.low for value in line.values], [value.high for value in line.values]
    axis.fill_between(line.lengths, low, high, color=colour, alpha=0.15, linewidth=0, zorder=2)
    axis.plot(
        line.lengths,
        middle,
        DASHES[number // len(PALETTE) % len(DASHES)],
        color=colour,
        marker=MARKERS[number % len(MARKERS)],
        markersize=5,
        linewidth=1.6,
        label=line.label,
        zorder=3,
    )


def draw_bars(panels: Sequence[tuple[str, Sequence[Bar]]], x_label: str, level: float | None = None) -> Figure:
    """Panels below one another, each (title, bars) with a bar a system, its quartiles as a whisker."""
    heights = [1.0 + 0.28 * len(bars) for _, bars in panels]
    figure = Figure(figsize=(7.2, sum(heights) + 0.3), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(panels), 1, squeeze=False, sharex=True, height_ratios=heights)[:, 0]
    for axis, (title, bars) in zip(axes, panels, strict=True):
        labels, values = [bar.label for bar in bars], [bar.value for bar in bars]
        error = [[v.median - v.low for v in values], [v.high - v.median for v in values]]
        style = {"elinewidth": 1.0, "ecolor": "#222222"}
        axis.barh(
            labels, [v.median for v in values], color=PALETTE[0], height=0.62, xerr=error, error_kw=style, zorder=2
        )
        axis.invert_yaxis()
        if level is not None:
            axis.axvline(level, color="#555555", linestyle=":", linewidth=1.2, zorder=3)
        dressed(axis, title, x_label if axis is axes[-1] else "", "")
        axis.grid(axis="x", color="#E6E6E6", linewidth=0.8)
    return figure


def dressed(axis: Axes, title: str, x_label: str, y_label: str) -> None:
    axis.set_title(title, loc="left", fontsize=SMALL + 2, fontweight="bold")
    axis.set_xlabel(x_label, fontsize=SMALL + 1)
    axis.set_ylabel(y_label, fontsize=SMALL + 1)
    axis.tick_params(labelsize=SMALL)
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_axisbelow(True)
