"""The charts of a report: learning, length, and both for many runs in one plot."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from typing import Any

from relformer.figures.chart import Chart, Series
from relformer.figures.chart_svg import chart_svg
from relformer.report.reading import Run, finite, labels

Column = tuple[str, str, str, tuple[float, float] | None]
"""A column of the log, the chart's title, its unit and the ends of its axis."""
WIDE = 620
POINTS = 400
"""The most points of a learning curve; longer logs are thinned evenly."""


def learning_charts(runs: Sequence[Run], names: Sequence[str]) -> list[str]:
    """Training loss and, of every validation set, exact match and BLEU of a sample against optimizer steps: SVG."""
    logged = sorted({key for run in runs for row in run.log for key in row})
    columns: list[Column] = [("train/loss", "training loss", "loss (nats a token)", None)]
    for figure, unit, bounds in (("exact_match", "exact match", (0.0, 1.0)), ("bleu", "BLEU of a sample", None)):
        found = [key for key in logged if re.fullmatch(f"val/[^/]+/{figure}", key)]
        columns += [(key, f"{key.split('/')[1]}, validation", unit, bounds) for key in found]
    return [
        chart_svg(
            Chart(
                title,
                "optimizer step",
                unit,
                [
                    Series(name, *thinned(*run.column(key)), style=n)
                    for n, (run, name) in enumerate(zip(runs, names, strict=True))
                ],
                y_range=bounds,
            )
        )
        for key, title, unit, bounds in columns
    ]


def thinned(steps: list[float], values: list[float]) -> tuple[list[float], list[float]]:
    every = max(1, -(-len(steps) // POINTS))
    return steps[::every], values[::every]


def length_chart(run: Run, figure: str = "exact_match") -> str:
    """A run's tests by length, a line a set; of an unfinished run its last validation."""
    series = []
    for name, found in run.headline.items():
        if run.metrics is not None and not name.startswith("test_"):
            continue
        rows = by_length(found, figure)
        bounds = figure == "exact_match" and run.metrics is not None
        series.append(
            Series(
                name,
                [row[0] for row in rows],
                [row[1] for row in rows],
                [row[2] for row in rows] if bounds else None,
                [row[3] for row in rows] if bounds else None,
                dots=True,
            )
        )
    named = {"exact_match": "exact match", "loss": "loss (nats a token)", "correct_prefix": "correct prefix"}[figure]
    bounded = None if figure == "loss" else (0.0, 1.0)
    return chart_svg(Chart(f"{named} by length", axis(run), named, series, marks(run), bounded, WIDE))


def by_length(figures: dict[str, Any], figure: str) -> list[tuple[float, float, float, float]]:
    """Length, value and the bounds of its interval."""
    if "by_length" in figures:
        return [
            (
                (b["min_length"] + b["max_length"]) / 2,
                finite(b[figure]),
                finite(b.get("exact_match_low")),
                finite(b.get("exact_match_high")),
            )
            for b in figures["by_length"]
        ]
    if figure != "exact_match":
        return []
    found = figures.get("exact_by_length", {})
    middle = {label: statistics.mean(map(int, label.split("-"))) for label in found}
    return [(middle[label], found[label], math.nan, math.nan) for label in sorted(found, key=middle.__getitem__)]


def axis(run: Run) -> str:
    return f"{run.length_side} length (tokens without BOS and EOS)"


def marks(run: Run) -> list[tuple[float, str]]:
    return [] if run.trained_length is None else [(float(run.trained_length), "longest trained")]


def reach_charts(runs: Sequence[Run]) -> list[str]:
    """How far each kind of run reaches: tests by length, one line for all seeds of one configuration.

    The band of several seeds is their range, that of one the Wilson interval of its examples: chance of the draw of
    sentences, not of training. Runs on different data get plots of their own.
    """
    done = [run for run in runs if run.metrics is not None]
    tasks = sorted({str(run.settings.get("data.name")) for run in done})
    charts = []
    for task in tasks:
        mine = [run for run in done if str(run.settings.get("data.name")) == task]
        groups = seed_groups(mine)
        for figure, title in (("exact_match", "exact match"), ("correct_prefix", "correct prefix")):
            series = [reach(name, group, figure) for name, group in groups]
            where = f"{task}: {title} by length" if len(tasks) > 1 else f"{title} by length"
            charts.append(chart_svg(Chart(where, axis(mine[0]), title, series, marks(mine[0]), (0.0, 1.0), WIDE, 340)))
    return charts


def seed_groups(runs: Sequence[Run]) -> list[tuple[str, list[Run]]]:
    """Runs that differ in the seed alone, named by what sets the groups apart."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        key = repr(sorted((k, repr(v)) for k, v in run.settings.items() if k != "seed"))
        groups.setdefault(key, []).append(run)
    first = [group[0] for group in groups.values()]
    apart = [Run(r.directory, r.name, {k: v for k, v in r.settings.items() if k != "seed"}, [], None) for r in first]
    return [
        (f"{name} ({len(group)} seeds)" if len(group) > 1 else name, group)
        for name, group in zip(labels(apart), groups.values(), strict=True)
    ]


def reach(name: str, group: Sequence[Run], figure: str) -> Series:
    """Mean over seeds of the tests in and beyond the trained range, joined to one line."""
    found: dict[float, list[tuple[float, float, float, float]]] = {}
    for run in group:
        for test, figures in run.headline.items():
            for row in by_length(figures, figure) if test.startswith("test_") else []:
                found.setdefault(row[0], []).append(row)
    lengths = sorted(found)
    value = [statistics.mean(row[1] for row in found[x]) for x in lengths]
    if len(group) > 1:
        low, high = ([end(row[1] for row in found[x]) for x in lengths] for end in (min, max))
    elif figure == "exact_match":
        low, high = ([found[x][0][n] for x in lengths] for n in (2, 3))
    else:
        return Series(name, lengths, value, dots=True)
    return Series(name, lengths, value, low, high, dots=True)
