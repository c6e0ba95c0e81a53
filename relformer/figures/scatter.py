"""Groups of runs in a plane: a dot a run, a marker and its intervals a group; perhaps the front of the best trades."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from relformer.figures.length_curve import MARKERS, PALETTE, legend_columns, text_size

Interval = tuple[float, float]


@dataclass(frozen=True)
class Points:
    """A group: both coordinates of each of its runs, and the intervals of their means where they are known.

    Raises ValueError when the coordinates differ in number or there are none.
    """

    label: str
    x: list[float]
    y: list[float]
    x_interval: Interval | None = None
    y_interval: Interval | None = None

    def __post_init__(self) -> None:
        if not self.x or len(self.x) != len(self.y):
            raise ValueError(f"points {self.label!r}: x and y must have one entry a run")

    @property
    def mean(self) -> tuple[float, float]:
        return statistics.mean(self.x), statistics.mean(self.y)


def draw_scatter(
    groups: Sequence[Points], x_label: str, y_label: str, front: bool = False, width: float = 7.2
) -> Figure:
    """One marker a group at its means, whiskers for intervals, a pale dot a run; `width` in inches.

    With ``front`` a line joins the groups that none other beats in cost (x, less is better) and score (y) at once.
    """
    small = text_size(width)
    figure = Figure(figsize=(width, 0.45 * width + 1.4), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.add_subplot()
    for number, group in enumerate(groups):
        draw_group(axis, group, number)
    if front:
        best = pareto_front([group.mean for group in groups])
        places = sorted(groups[i].mean for i in best)
        axis.plot(*zip(*places, strict=True), "--", color="#555555", linewidth=1, zorder=1, label="Pareto front")
    axis.set_xlabel(x_label, fontsize=small + 1)
    axis.set_ylabel(y_label, fontsize=small + 1)
    axis.tick_params(labelsize=small)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(color="#E6E6E6", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.margins(0.08)
    handles, labels = axis.get_legend_handles_labels()
    columns = legend_columns(labels, small, width) if labels else 1
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=small)
    return figure


def draw_group(axis: Axes, group: Points, number: int) -> None:
    colour, marker = PALETTE[number % len(PALETTE)], MARKERS[(number + number // len(PALETTE)) % len(MARKERS)]
    x, y = group.mean
    axis.scatter(group.x, group.y, s=9, color=colour, alpha=0.45, linewidths=0, zorder=2)
    bars = [
        None if interval is None else [[max(0.0, mean - interval[0])], [max(0.0, interval[1] - mean)]]
        for mean, interval in ((x, group.x_interval), (y, group.y_interval))
    ]
    axis.errorbar(x, y, xerr=bars[0], yerr=bars[1], fmt="none", ecolor=colour, elinewidth=0.9, alpha=0.7, zorder=2)
    style: dict[str, Any] = {"markersize": 6.5, "markeredgecolor": "white", "markeredgewidth": 0.8, "linestyle": "none"}
    axis.plot(x, y, marker, color=colour, label=group.label, zorder=3, **style)


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """The points (cost, score) that no other one beats: at most its cost and at least its score, one of them better."""

    def beaten(point: tuple[float, float]) -> bool:
        return any(o[0] <= point[0] and o[1] >= point[1] and o != point for o in points)

    return [i for i, point in enumerate(points) if not beaten(point)]
