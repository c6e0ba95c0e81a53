"""The pictures of a comparison: length curves over seeds, in distribution against beyond it, and score against cost."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from matplotlib.figure import Figure

from relformer.errors import UserError
from relformer.evaluation.groups import Group, edges_of
from relformer.evaluation.scores import PERCENT
from relformer.evaluation.summary import length_label
from relformer.evaluation.tables import BY_LENGTH, Comparison, side_of, spoken, within_scale
from relformer.figures.length_curve import Curve, draw_length_curve
from relformer.figures.scatter import Points, draw_scatter

COSTS = ("seconds_per_step", "parameters")
"""Which cost is drawn unless told, the first that every group has."""
PAGE = 7.2


def figures_of(comparison: Comparison, width: float = PAGE) -> dict[str, Figure]:
    """All that the runs have numbers for, by title."""
    found = {
        f"{spoken(figure)[0].upper()}{spoken(figure)[1:]} by length": curve_figure(comparison, width, figure)
        for figure in BY_LENGTH
        if any(edges_of(comparison.groups, name, figure) for name in curve_sets(comparison.groups))
    }
    if longer_sets(comparison):
        found["In distribution and beyond"] = scatter_figure(comparison, width)
        found["Beyond the trained length and cost"] = pareto_figure(comparison, None, width)
    return found


def curve_figure(
    comparison: Comparison, width: float = PAGE, figure: str = "exact_match", published: Sequence[Curve] = ()
) -> Figure:
    """Exact match, or another figure, by length, through the i.i.d. and the longer test.

    Mean, 95 % band over seeds and a dot a run; dotted the `published` curves of some of the labels.

    Raises:
        UserError: the groups' data or trained lengths differ, so that no axis fits all, or none has the figure.
    """
    groups = comparison.groups
    lengths = {
        group.config.get("trained_length", next(iter(group.runs.values()))["trained_length"]) for group in groups
    }
    if len({group.content for group in groups}) > 1 or len(lengths) > 1:
        raise UserError("length curves of different data can't share an axis; give the runs of one")
    curves = [curve(group, label, groups, figure) for group, label in zip(groups, comparison.labels, strict=True)]
    if not any(found.lengths for found in curves):
        raise UserError(f"no run has {spoken(figure)} by length{', which is of text' if figure in PERCENT else ''}")
    side, band = side_of(groups, figure), "mean, 95 % band over seeds"
    highest = max(high for found in curves for high in found.high)
    top = max(10, 10 * math.ceil(highest / 10)) if figure in PERCENT else 1
    return draw_length_curve(curves, "", lengths.pop(), side, band, width, spoken(figure), published, top)


def curve(group: Group, label: str, groups: Sequence[Group], figure: str) -> Curve:
    found = Curve(label, [], [], [], [], [], [], [])
    assert found.dots is not None
    for name in curve_sets([group]):
        for edge, values in group.by_length(name, edges_of(groups, name, figure), figure).items():
            mean = statistics.mean(values)
            low, high = within_scale(values, figure) or (mean, mean)
            found.lengths.append(sum(edge) / 2)
            found.labels.append(length_label({"min_length": edge[0], "max_length": edge[1]}))
            found.value.append(mean)
            found.low.append(low)
            found.high.append(high)
            found.n.append(group.sentences(name, edge, figure))
            found.dots.append(values)
    return found


def curve_sets(groups: Sequence[Group]) -> list[str]:
    """The test sets whose lengths go on where others' end."""
    names = {name for group in groups for name in group.sets()}
    return sorted(name for name in names if name == "test_iid" or name.endswith("_longer"))


def longer_sets(comparison: Comparison) -> list[str]:
    return [name for name, figure in comparison.columns if name != "test_iid" and figure == "exact_match"]


def scatter_figure(comparison: Comparison, width: float = PAGE, figure: str = "correct_prefix") -> Figure:
    """In-distribution exact match against the longer score, a dot a seed.

    Raises:
        UserError: no longer test, or none in distribution.
    """
    longer = the_longer_set(comparison)
    points = []
    for group, label in zip(comparison.groups, comparison.labels, strict=True):
        inside, beyond = group.by_seed("test_iid"), group.by_seed(longer, figure)
        if seeds := sorted(inside.keys() & beyond.keys()):
            x, y = [inside[s] for s in seeds], [beyond[s] for s in seeds]
            points.append(Points(label, x, y, within_scale(x), within_scale(y)))
    if not points:
        raise UserError("no run has both test_iid and a longer test; nothing to draw")
    return draw_scatter(points, "test_iid, exact match", f"{longer}, {spoken(figure)}", width=width)


def pareto_figure(
    comparison: Comparison, cost: str | None = None, width: float = PAGE, figure: str = "correct_prefix"
) -> Figure:
    """Cost against the longer score, with the front of what none beats in both.

    Raises:
        UserError: no longer test, or a cost that not every group has.
    """
    longer, groups = the_longer_set(comparison), comparison.groups
    known = [key for key in groups[0].costs if all(key in group.costs for group in groups)]
    chosen = cost or next((key for key in COSTS if key in known), None)
    if chosen not in known:
        raise UserError(f"no cost {chosen!r} that all runs have; there is: {', '.join(known) or 'none'}")
    points = []
    for group, label in zip(groups, comparison.labels, strict=True):
        if y := group.values(longer, figure):
            x = [statistics.median(group.costs[chosen])] * len(y)
            points.append(Points(label, x, y, None, within_scale(y)))
    return draw_scatter(points, spoken(chosen), f"{longer}, {spoken(figure)}", front=True, width=width)


def the_longer_set(comparison: Comparison) -> str:
    found = longer_sets(comparison)
    if not found:
        raise UserError("the runs have no test beyond the trained distribution")
    return "test_longer" if "test_longer" in found else found[0]
