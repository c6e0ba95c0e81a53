"""Accuracy against length: how far a model carries what it learned beyond the lengths it was trained on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7F3C8D", "#1A1A1A")
MARKERS = "os^Dv<>P"
DASHES = ("-", "--", "-.", ":")
FEW = 100
FEW_COLOUR = "#B0B0B0"
LETTER = 0.012
EDGE = 0.15
"""Share of the axis at either end in which a note would run out of the picture."""
NARROW = 5.0
"""Inches below which a figure is for a column of a paper."""


@dataclass(frozen=True)
class Curve:
    """One line: for each length bucket its centre, its label, a figure with its 95 % bounds and the examples.

    All lists have one entry a bucket; a value that is NaN leaves a gap. `dots`, where there are
    any, are the values of the single runs behind each value.
    Raises ValueError when the lists differ in length.
    """

    label: str
    lengths: list[float]
    labels: list[str]
    value: list[float]
    low: list[float]
    high: list[float]
    n: list[int]
    dots: list[list[float]] | None = None

    def __post_init__(self) -> None:
        dots = self.lengths if self.dots is None else self.dots
        lists = (self.lengths, self.labels, self.value, self.low, self.high, self.n, dots)
        if len({len(entries) for entries in lists}) > 1:
            raise ValueError(f"curve {self.label!r}: all lists must have one entry a bucket")


def draw_length_curve(
    curves: list[Curve],
    title: str,
    trained_length: int,
    side: str = "target",
    band: str = "95 % Wilson band",
    width: float = 7.2,
    figure: str = "exact match",
    published: Sequence[Curve] = (),
    top: float = 1,
) -> Figure:
    """Draw exact match, or another figure, against target length, one line and one band a curve; `width` in inches.

    Points from fewer than 100 examples are grey: their band is wide and their order means little. The dotted line
    stands at ``trained_length`` (tokens without BOS and EOS); everything right of it is extrapolation. `published`
    are curves of other work, dotted in the colour of the curve that has their label. The axis ends at `top`.
    """
    small = text_size(width)
    drawn = Figure(figsize=(width, 0.35 * width + 1.9), layout="constrained")
    FigureCanvasAgg(drawn)
    axis = drawn.add_subplot()
    for number, curve in enumerate(curves):
        _draw_curve(axis, curve, number, 6.5 if width > NARROW else 4.5)
    places = {curve.label: number for number, curve in enumerate(curves)}
    for curve in published:
        _draw_published(axis, curve, places[curve.label])
    axis.set_ylim(0, top)
    axis.margins(x=0.03)
    _draw_trained(axis, trained_length, small)
    axis.set_yticks(np.linspace(0, top, 6))
    axis.tick_params(labelsize=small)
    axis.set_xlabel(f"{side} length (tokens without BOS and EOS)", fontsize=small + 1)
    axis.set_ylabel(f"{figure}{' ' if width > NARROW else chr(10)}({band})", fontsize=small + 1)
    axis.set_title(title or " ", loc="left", fontsize=small + 2, fontweight="bold", pad=18)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="y", color="#E6E6E6", linewidth=0.8)
    axis.set_axisbelow(True)
    _label_buckets(axis, curves, small, width)
    _draw_legend(drawn, axis, curves, small, width)
    return drawn


def text_size(width: float) -> int:
    """Points for ticks and legends in a figure so many inches wide: a column of a paper takes smaller ones."""
    return 9 if width > NARROW else 7


def _draw_curve(axis: Axes, curve: Curve, number: int, size: float) -> None:
    """Band, line and markers of the curve; the list of curves may repeat colours but not colour and dash together."""
    colour = PALETTE[number % len(PALETTE)]
    dash = DASHES[number // len(PALETTE) % len(DASHES)]
    marker = MARKERS[number % len(MARKERS)]
    order = np.argsort(curve.lengths)
    x = np.asarray(curve.lengths, dtype=float)[order]
    value, low, high = (np.asarray(y, dtype=float)[order] for y in (curve.value, curve.low, curve.high))
    few = np.asarray(curve.n)[order] < FEW
    axis.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0, zorder=2)
    style: dict[str, Any] = {
        "clip_on": False,
        "in_layout": False,
        "markeredgecolor": "white",
        "markeredgewidth": 0.8,
        "markersize": size,
    }
    axis.plot(x, value, dash, color=colour, linewidth=1.8, marker=marker, label=curve.label, zorder=3, **style)
    for place, bucket in enumerate(order if curve.dots else ()):
        values = (curve.dots or [])[bucket]
        axis.scatter([x[place]] * len(values), values, s=6, color=colour, alpha=0.5, linewidths=0, zorder=3)
    axis.plot(x[few], value[few], linestyle="none", color=FEW_COLOUR, marker=marker, zorder=4, **style)


def _draw_published(axis: Axes, curve: Curve, number: int) -> None:
    """Line and band of other work's figures beside ours."""
    style: dict[str, Any] = {"color": PALETTE[number % len(PALETTE)], "linewidth": 1.4, "zorder": 2}
    axis.fill_between(curve.lengths, curve.low, curve.high, alpha=0.08, color=style["color"], linewidth=0)
    axis.plot(curve.lengths, curve.value, ":", label=f"{curve.label}, published (range)", **style)


def _draw_trained(axis: Axes, trained_length: int, size: int) -> None:
    axis.axvline(trained_length, color="#555555", linestyle=":", linewidth=1.5, zorder=1)
    left, right = axis.get_xlim()
    place = (trained_length - left) / (right - left)
    note = axis.annotate(
        "longest trained",
        (trained_length, 1),
        xycoords=("data", "axes fraction"),
        xytext=(0, 5),
        textcoords="offset points",
        ha="left" if place < EDGE else "right" if place > 1 - EDGE else "center",
        va="bottom",
        fontsize=size,
        color="#555555",
        annotation_clip=False,
    )
    note.set_in_layout(False)


def _label_buckets(axis: Axes, curves: list[Curve], size: int, width: float) -> None:
    """Name the buckets below the axis, leaving out those too near to the one before."""
    names = {x: name for curve in curves for x, name in zip(curve.lengths, curve.labels, strict=True)}
    left, right = axis.get_xlim()
    ticks: list[float] = []
    for x in sorted(names):
        if ticks:
            letters = (len(names[x]) + len(names[ticks[-1]])) / 2 + 1.5
            if x - ticks[-1] < letters * LETTER * size / 9 * 7.2 / width * (right - left):
                continue
        ticks.append(x)
    axis.set_xticks(ticks, [names[x] for x in ticks], fontsize=size)


def legend_columns(labels: list[str], size: int, width: float) -> int:
    """How many labels of so many points stand side by side below a figure of so many inches: four, or what fits."""
    entry = size * (0.6 * max(map(len, labels)) + 5)  # letters, and the line with the space around it
    return max(1, min(4 if width > NARROW else 2, len(labels), int(72 * width / entry)))


def _draw_legend(figure: Figure, axis: Axes, curves: list[Curve], size: int, width: float) -> None:
    """Legend below the axes, where no curve can run through it, with a grey entry when grey points are there."""
    handles = [line for line in axis.get_lines() if not str(line.get_label()).startswith("_")]
    if any(n < FEW and not math.isnan(y) for curve in curves for n, y in zip(curve.n, curve.value, strict=True)):
        handles.append(
            Line2D([], [], color=FEW_COLOUR, marker="o", linestyle="none", label=f"fewer than {FEW} examples")
        )
    if handles:
        columns = legend_columns([str(handle.get_label()) for handle in handles], size, width)
        figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=size)
