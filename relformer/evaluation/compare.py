"""Runs side by side, grouped by everything but the seed: never one run, never a bare mean."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import get_args

from relformer.arguments import Arguments, file_to_write
from relformer.errors import UserError
from relformer.evaluation.differences import Choice, against_baseline
from relformer.evaluation.fairness import warnings_of
from relformer.evaluation.groups import Group, find_runs, group_runs, label_groups
from relformer.evaluation.pictures import figures_of
from relformer.evaluation.records import to_csv
from relformer.evaluation.rendering import print_tables, to_html, to_latex
from relformer.evaluation.tables import Comparison, columns_of, tables_of
from relformer.evaluation.tuned import tuning_table, tuning_warnings
from relformer.files import write_text
from relformer.registry import did_you_mean


def compare_command(arguments: list[str]) -> Comparison:
    """`relformer compare RUNS [baseline=NAME] [test=auto|paired|unpaired] [csv=F] [latex=F] [html=F]`.

    Raises:
        UserError: an unknown option, or what `compare_runs` raises.
    """
    parser = Arguments(prog="relformer compare", allow_abbrev=False)
    parser.add_argument("runs", nargs="+", help="run directories, or folders that hold some")
    parser.add_argument("--baseline", help="the group that the others are tested against; the oldest unless told")
    parser.add_argument("--test", choices=get_args(Choice), default="auto")
    for kind in ("csv", "latex", "html"):
        parser.add_argument(f"--{kind}", type=file_to_write, metavar="FILE")
    options = vars(parser.parsed(arguments))
    return compare_runs(options.pop("runs"), **options)


def compare_runs(
    paths: Iterable[str],
    *,
    baseline: str | None = None,
    test: Choice = "auto",
    csv: Path | None = None,
    latex: Path | None = None,
    html: Path | None = None,
) -> Comparison:
    """Print means, spreads and intervals over seeds, tests against a baseline, costs and warnings; write what is asked.

    Args:
        paths: run directories, or folders that hold some.
        baseline: the label of a group, as the tables print it, or a part that no other has; None takes the group whose
            runs are oldest.
        test: `paired` flips signs within pairs of one seed, `unpaired` deals runs to groups anew, `auto` chooses by the
            number of seeds alone.
        csv, latex, html: files to write.

    Raises:
        UserError: no finished run below the paths, no such baseline, or stored outcomes that are not of one test.
    """
    files = [path for path in (csv, latex, html) if path is not None]
    if len({path.resolve() for path in files}) < len(files):
        raise UserError(f"csv, latex and html need files of their own: {', '.join(map(str, files))}")
    comparison = compared(paths, baseline, test)
    named = comparison.groups, comparison.labels
    tables, warnings = tables_of(comparison), [*warnings_of(*named), *tuning_warnings(*named)]
    tables += [table for table in (tuning_table(*named),) if table.rows]
    print_tables(tables, warnings)
    title = f"{', '.join(comparison.labels)}: {sum(len(g.runs) for g in comparison.groups)} runs"
    written = {
        csv: lambda: to_csv(comparison),
        latex: lambda: to_latex(tables, warnings),
        html: lambda: to_html(title, tables, warnings, figures_of(comparison)),
    }
    for path, made in written.items():
        if path is not None:
            write_text(path, made())
            print(f"written     {path}")
    return comparison


def compared(
    paths: Iterable[str], baseline: str | None = None, test: Choice = "auto", tests: bool = True
) -> Comparison:
    """The finished runs below the paths, grouped, the best longer result, or BLEU, first, and tested where `tests`."""
    groups = group_runs(find_runs(paths))
    labels = label_groups([group.config for group in groups])
    first = chosen(baseline, labels)
    columns = columns_of(groups)
    order = sorted(range(len(groups)), key=lambda i: -score(groups[i], columns))
    groups, labels, place = [groups[i] for i in order], [labels[i] for i in order], order.index(first)
    tested = columns if tests else []
    found = [each for name, figure in tested for each in against_baseline(groups, place, name, figure, test)]
    return Comparison(groups, labels, place, columns, found)


def score(group: Group, columns: Sequence[tuple[str, str]]) -> float:
    """What groups are ordered by: BLEU of the first text, else the last of the columns."""
    leading = next((column for column in columns if column[1] == "bleu"), columns[-1] if columns else None)
    values = group.values(*leading) if leading else []
    return statistics.mean(values) if values else 0.0


def chosen(baseline: str | None, labels: Sequence[str]) -> int:
    """The place of the baseline, by its label or a part of it that no other has.

    Raises:
        UserError: no group has this label.
    """
    if baseline is None:
        return 0
    partly = [place for place, label in enumerate(labels) if baseline in label.split(", ")]
    if baseline not in labels and len(partly) == 1:
        return partly[0]
    if baseline not in labels:
        near = did_you_mean(baseline, labels)
        raise UserError(f"no group of runs is called {baseline!r}{near}\n  groups: {'; '.join(labels)}")
    return labels.index(baseline)
