"""A comparison as tables of text: means over seeds, by length, against the baseline, over sentences, cost."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from relformer.evaluation.differences import Difference
from relformer.evaluation.groups import Group, edges_of
from relformer.evaluation.report import FEW
from relformer.evaluation.scores import PERCENT
from relformer.evaluation.statistics import interval_over_seeds
from relformer.evaluation.summary import length_label

KINDS = ("last", "best_val")
BY_LENGTH = ("exact_match", "bleu")
FIRST_COSTS = ("parameters", "position_parameters", "seconds_per_step")
NAMES = {"bleu": "BLEU", "chrf": "chrF"}


@dataclass(frozen=True)
class Table:
    """A title, a head and rows of text, and a note on how to read it; `grey` are columns of few sentences."""

    title: str
    head: list[str]
    rows: list[list[str]]
    note: str
    grey: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Comparison:
    """Groups in the order of their best longer result, the baseline's place among them, and the tests against it."""

    groups: list[Group]
    labels: list[str]
    baseline: int
    columns: list[tuple[str, str]]
    """Set and figure."""
    differences: list[Difference]


def tables_of(comparison: Comparison) -> list[Table]:
    by_length = [length_table(comparison, *column) for column in comparison.columns if column[1] in BY_LENGTH]
    found = [
        means_table(comparison),
        *(table for table in by_length if len(table.head) > 2),
        checkpoints_table(comparison),
        differences_table(comparison),
        sentences_table(comparison),
        cost_table(comparison),
    ]
    return [table for table in found if table.rows]


def means_table(comparison: Comparison) -> Table:
    rows = [
        [label, *(mean_cell(g, *column) for column in comparison.columns), str(len(g.runs))]
        for g, label in zip(comparison.groups, comparison.labels, strict=True)
    ]
    head = ["runs", *(f"{name}, {spoken(figure)}" for name, figure in comparison.columns), "seeds"]
    note = (
        "mean ± standard deviation [95 % interval of the mean] over seeds (training runs), Student's, within 0 and 1 "
        "(BLEU, chrF: 100)"
    )
    return Table("Means over seeds", head, rows, note)


def mean_cell(group: Group, name: str, figure: str) -> str:
    values = group.values(name, figure)
    few = f" (n {len(values)})" if 0 < len(values) < len(group.runs) else ""
    return spread(values, figure=figure) + few


def length_table(comparison: Comparison, name: str, figure: str) -> Table:
    """A figure of one set, a column a bucket of lengths."""
    groups, edges = comparison.groups, edges_of(comparison.groups, name, figure)
    found = [group.by_length(name, edges, figure) for group in groups]
    edges = [edge for edge in edges if any(edge in each for each in found)]
    counts = [min(filter(None, (g.sentences(name, edge, figure) for g in groups)), default=0) for edge in edges]
    rows = [
        [label, *(spread(each.get(edge, []), brief=True, figure=figure) for edge in edges)]
        for each, label in zip(found, comparison.labels, strict=True)
    ]
    head = ["runs", *(length_label({"min_length": low, "max_length": high}) for low, high in edges)]
    rows.append(["n", *map(str, counts)])
    note = (
        f"length: {side_of(groups, figure)} tokens without BOS and EOS; mean [95 % interval] over seeds, "
        f"of n sentences; grey: below {FEW}"
    )
    grey = {place for place, n in enumerate(counts, 1) if n < FEW}
    return Table(f"{name}, {spoken(figure)} by length", head, rows, note, grey)


def side_of(groups: Iterable[Group], figure: str) -> str:
    """Whose length is meant: the target's of text, of other figures what the data say."""
    said = (g.config["length_side"] for g in groups if "length_side" in g.config and figure not in PERCENT)
    return next(said, "target")


def checkpoints_table(comparison: Comparison) -> Table:
    """Both checkpoints side by side, where runs keep two that differ."""
    head = ["runs", *(f"{name}, {kind}" for name, f in comparison.columns for kind in KINDS if f == "exact_match")]
    rows = []
    for group, label in zip(comparison.groups, comparison.labels, strict=True):
        steps = [{group.figures(seed, kind).get("step") for kind in KINDS} for seed in group.runs]
        if any(len(each - {None}) > 1 for each in steps):
            sets = [name for name, figure in comparison.columns if figure == "exact_match"]
            rows.append([label, *(spread(group.values(name, "exact_match", k)) for name in sets for k in KINDS)])
    return Table("Both checkpoints", head, rows, "exact match, mean ± standard deviation [95 % interval] over seeds")


def differences_table(comparison: Comparison) -> Table:
    base = comparison.labels[comparison.baseline]
    rows = [
        [
            comparison.labels[each.group],
            f"{each.set}, {spoken(each.figure)}",
            f"{each.mean:+.{digits(each.figure)}f}",
            bracketed(each.interval, digits(each.figure)),
            f"{each.test.kind}, {'exact' if each.test.exact else 'drawn'}",
            p_value(each.test.p),
            p_value(each.test.least),
            p_value(each.p_holm),
        ]
        for each in comparison.differences
    ]
    head = [
        "runs",
        "figure",
        f"minus {base}",
        "interval over seeds",
        "permutation test",
        "p",
        "least p",
        "p, Holm",
    ]
    note = (
        f"over seeds (training runs); each group against {base}; p is two-sided, 'least p' what so many seeds can give "
        "at the best; Holm: over all groups, for each figure"
    )
    return Table(f"Against {base}, over seeds", head, rows, note)


def sentences_table(comparison: Comparison) -> Table:
    base = comparison.labels[comparison.baseline]
    rows = []
    for each in comparison.differences:
        if (found := each.sentences) is not None:
            label, figure = comparison.labels[each.group], f"{each.set}, {spoken(each.figure)}"
            places = digits(each.figure)
            interval = bracketed((found.low, found.high), places)
            tests = " ".join(f"{seed}: {p_value(p)}" for seed, p in found.p_by_seed.items())
            rows.append([label, figure, f"{found.mean:+.{places}f}", interval, str(found.n), tests or "-"])
    head = ["runs", "figure", f"minus {base}", "interval over sentences", "n", "p by seed"]
    note = (
        "over sentences: of these trained models, whose seeds are held; 95 % paired bootstrap of the mean over seeds; "
        "p of each pair of runs, two-sided: of exact match McNemar's mid-p, of BLEU the paired bootstrap's. It says "
        "nothing of other training runs"
    )
    return Table(f"Against {base}, over sentences", head, rows, note)


def cost_table(comparison: Comparison) -> Table:
    """Every cost that a run has measured: the median over seeds."""
    keys = list(FIRST_COSTS) + sorted({key for g in comparison.groups for key in g.costs} - set(FIRST_COSTS))
    keys = [key for key in keys if any(key in group.costs for group in comparison.groups)]
    rows = [
        [label, *(cost(group.costs.get(key, [])) for key in keys)]
        for group, label in zip(comparison.groups, comparison.labels, strict=True)
    ]
    note = "median over seeds; times are comparable where runs had the machine to themselves"
    matched = {str(run.get("matched")) for group in comparison.groups for run in group.runs.values()} - {"None"}
    note += f"; matched by {', '.join(sorted(matched))}" if matched else ""
    return Table("Cost", ["runs", *map(spoken, keys)], rows if keys else [], note)


def cost(values: Sequence[float]) -> str:
    if not values:
        return "-"
    value = statistics.median(values)
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:.3g}"


def spread(values: Sequence[float], brief: bool = False, figure: str = "exact_match") -> str:
    """Mean, standard deviation and interval over seeds, or the first and the last; a single run is said to be one."""
    if not values:
        return "-"
    if len(values) == 1:
        return f"{values[0]:.{digits(figure)}f} (one seed)"
    interval, places = within_scale(values, figure), digits(figure)
    if brief:
        return f"{statistics.mean(values):.2f} {bracketed(interval, 2)}"
    return f"{statistics.mean(values):.{places}f} ± {statistics.stdev(values):.{places}f} {bracketed(interval, places)}"


def within_scale(values: Sequence[float], figure: str = "exact_match") -> tuple[float, float] | None:
    """Student's interval of a mean, as far as it lies on the figure's scale: shares end at 1, BLEU and chrF at 100."""
    interval, top = interval_over_seeds(values), 100.0 if figure in PERCENT else 1.0
    return None if interval is None else (max(0.0, interval[0]), min(top, interval[1]))


def bracketed(interval: tuple[float, float] | None, places: int = 3) -> str:
    return "-" if interval is None else f"[{interval[0]:.{places}f}, {interval[1]:.{places}f}]"


def digits(figure: str) -> int:
    """As many as mean something."""
    return 2 if figure in PERCENT else 3


def spoken(key: str) -> str:
    return NAMES.get(key, key.replace("_", " "))


def p_value(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def columns_of(groups: Iterable[Group]) -> list[tuple[str, str]]:
    """Exact match of every test set, and beyond the trained distribution, where it may be 0 for all, the prefix; of
    text that was decoded BLEU and chrF."""
    groups = list(groups)
    names = sorted({name for group in groups for name in group.sets()})
    columns = [(name, "exact_match") for name in names]
    columns += [(name, "correct_prefix") for name in names if name != "test_iid"]
    return columns + [(n, figure) for n in names for figure in PERCENT if any(g.values(n, figure) for g in groups)]
