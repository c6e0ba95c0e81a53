"""What the runs of a table look like: exact match by length; of a claim also what it is about, in one picture."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from matplotlib.figure import Figure

from relformer.evaluation.groups import Group, edges_of
from relformer.evaluation.pictures import curve_figure, curve_sets, scatter_figure
from relformer.evaluation.tables import Comparison, spoken, within_scale
from relformer.figures.scatter import Points, draw_scatter
from relformer.published.rows import Row
from relformer.published.tables import Table

Found = tuple[Row, Group]


def pictures_of(table: Table, found: Sequence[Group]) -> Iterator[tuple[str, Figure]]:
    """The end of a file name and the picture, for each test that rows have runs of."""
    tests: dict[str, list[Found]] = {}
    for row, group in zip(table.rows, found, strict=True):
        lengths = {edge for name in curve_sets([group]) for edge in edges_of([group], name, row.figure)}
        if len(lengths) > 1:  # no curve of targets that are padded to one
            tests.setdefault(group.content, []).append((row, group))
    for number, rows in enumerate(tests.values(), 1):
        end = "" if len(tests) == 1 else f"_{number}"
        groups, labels = [group for _, group in rows], [row.name for row, _ in rows]
        figures = sorted({(row.set, row.figure) for row, _ in rows})
        comparison = Comparison(groups, labels, 0, figures, [])
        theirs = [row.curve for row, _ in rows if row.curve is not None]
        yield f"lengths{end}", curve_figure(comparison, figure=rows[0][0].figure, published=theirs)
        if table.claim:
            yield f"claim{end}", by_number(rows) if rows[0][0].x is not None else both(comparison)


def both(comparison: Comparison) -> Figure:
    """In distribution against beyond it."""
    return scatter_figure(comparison, figure="exact_match")


def by_number(rows: Sequence[Found]) -> Figure:
    """Our figure against how much a head learns of distance."""
    points = []
    for row, group in rows:
        values = group.values(row.set, row.figure)
        points.append(Points(row.name, [math.log2(1 + (row.x or 0))] * len(values), values, None, within_scale(values)))
    figure = f"{rows[0][0].set}, {spoken(rows[0][0].figure)}"
    return draw_scatter(points, "log2(1 + learned numbers a head)", figure)
