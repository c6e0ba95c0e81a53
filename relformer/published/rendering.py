"""A table of published figures as Markdown: the paper's, ours over seeds, what ours cost, and the command."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from relformer.evaluation.groups import Group
from relformer.evaluation.tables import digits
from relformer.published.findings import finding_lines, in_distribution, learned
from relformer.published.reach import reached
from relformer.published.rows import Row
from relformer.published.tables import Table

HEAD = (
    *("row", "published", "ours", "spread", "n", "correct prefix", "in distribution", "reaches"),
    *("steps", "CPU time", "command"),
)
FAR = 2.0
"""Standard deviations between seeds beyond which ours is said to be worse."""


def table_lines(table: Table, found: list[Group]) -> Iterator[str]:
    """The lines of a section, an empty one at its end."""
    yield from (f"### {table.title}", "")
    what = sorted({f"{row.figure.replace('_', ' ')} on {row.set}" for row in table.rows})
    yield f"{', '.join(what)}. {'About' if table.claim else 'Published'}: {table.source}{statistics_of(table)}."
    yield from ("", f"| {' | '.join(HEAD)} |", f"| {' | '.join(['---'] * len(HEAD))} |")
    for row, group in zip(table.rows, found, strict=True):
        yield f"| {' | '.join(cells(row, group))} |"
    yield ""
    yield from finding_lines(table.findings, table.rows, found)


def statistics_of(table: Table) -> str:
    """What the paper's figures are, where there are any, with their marks."""
    said: dict[str, dict[str, None]] = {}
    for row in table.rows:
        if row.published is not None:
            said.setdefault(row.statistic, {})[row.mark] = None
    return "".join(f"; {statistic} [{', '.join(marks)}]" for statistic, marks in said.items())


def cells(row: Row, group: Group) -> list[str]:
    published = "-" if row.published is None else f"{shown(row, row.published)} [{row.mark}]"
    command = f"`{row.command}`"
    if not group.runs:
        return [row.name, published, "not run", *[""] * (len(HEAD) - 4), command]
    values = group.values(row.set, row.figure)
    reach = None if row.of_text else reached(group)
    steps = {run["checkpoints"][run["checkpoint"]]["step"] for run in group.runs.values()}
    return [
        row.name,
        published,
        shown(row, statistics.mean(values)) + verdict(row, values),
        spread(row, values),
        str(len(values)),
        prefix(row, group),
        inside(row, group),
        "" if reach is None else str(reach),
        ", ".join(f"{step:,}" for step in sorted(steps)),
        cpu_time(group),
        command,
    ]


def prefix(row: Row, group: Group) -> str:
    """Tells rows apart whose exact match is at its floor."""
    values = [] if row.of_text else group.values(row.set, "correct_prefix")
    return f"{statistics.mean(values):.3f}" if values else ""


def inside(row: Row, group: Group) -> str:
    if not (values := in_distribution(row, group)):
        return ""
    share = statistics.mean(values)
    return f"{share:.3f}" if learned(row, group) else f"{share:.4f}, not learned"


def shown(row: Row, value: float) -> str:
    return f"{value:.{digits(row.figure)}f}"


def spread(row: Row, values: list[float]) -> str:
    """Standard deviation, least and greatest; nothing where one run is all."""
    if len(values) < 2:
        return ""
    return f"sd {shown(row, statistics.stdev(values))}, {shown(row, min(values))} - {shown(row, max(values))}"


def verdict(row: Row, values: list[float]) -> str:
    """By how many standard deviations between seeds ours is worse than a figure that was verified, where it is far."""
    if row.mark != "V" or row.published is None or len(values) < 2:
        return ""
    below, deviation = row.published - statistics.mean(values), statistics.stdev(values)
    if below <= FAR * deviation:
        return ""
    return f" ({below / deviation:.1f} sd below)" if deviation else " (below, sd 0)"


def cpu_time(group: Group) -> str:
    """Of one run, in minutes: the median."""
    measured = [float(run["cost"]["cpu_seconds"]) for run in group.runs.values() if run["cost"].get("cpu_seconds")]
    return f"{statistics.median(measured) / 60:.1f} min" if measured else ""
