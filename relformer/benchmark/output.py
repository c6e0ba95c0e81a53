"""Rows of a benchmark as a table in the terminal, as CSV, and as a picture."""

from __future__ import annotations

import csv
import io
import typing
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich import box
from rich.console import Console
from rich.table import Table

from relformer.benchmark.interleaved import Spread
from relformer.benchmark.options import Common
from relformer.evaluation.figure import save
from relformer.files import write_text

WIDE = 400
"""Characters of a line: figures are never cut to the width of a terminal."""
Column = tuple[str, Callable[[Any], str]]
"""A heading, and what stands below it for a row. Words stand left, numbers (headings after `|`) right."""


def deliver(
    rows: Sequence[Any],
    options: Common,
    title: str,
    columns: Sequence[Column],
    notes: Sequence[str],
    draw: Callable[[], Figure],
    group: Callable[[Any], str] = lambda row: "",
) -> None:
    """Print a table for each group of rows between the title and the notes, and write the files that were asked for."""
    console = Console(width=WIDE, soft_wrap=True, markup=False, highlight=False)
    console.print(title)
    for name in dict.fromkeys(map(group, rows)):
        console.print(table([row for row in rows if group(row) == name], columns, name))
    for note in filter(None, notes):
        console.print(note)
    if options.out:
        write_text(Path(options.out), as_csv(rows))
        console.print(f"written     {options.out}")
    if options.plot:
        save(draw(), Path(options.plot))


def table(rows: Sequence[Any], columns: Sequence[Column], title: str = "") -> Table:
    """Columns without a single entry are left out."""
    made = Table(title=title or None, title_justify="left", title_style="bold", box=box.MARKDOWN)
    cells = [(heading, [entry(row) for row in rows]) for heading, entry in columns]
    cells = [(heading, entries) for heading, entries in cells if any(entries)]
    for heading, _ in cells:
        made.add_column(heading.lstrip("|"), justify="right" if heading.startswith("|") else "left", no_wrap=True)
    for line in zip(*(entries for _, entries in cells), strict=True):
        made.add_row(*line)
    return made


def number(value: float | None, digits: int = 0) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def times(spread: Spread | None) -> str:
    """A ratio with its quartiles, where they differ."""
    if spread is None:
        return ""
    quartiles = f" ({spread.low:.2f}–{spread.high:.2f})" if spread.low < spread.high else ""
    return f"{spread.median:.2f}{quartiles}"


def as_csv(rows: Sequence[Any]) -> str:
    """A column a field; a ratio takes three: itself, `_low` and `_high`."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    hints = typing.get_type_hints(type(rows[0]))
    spread = {name for name, hint in hints.items() if hint is Spread or Spread in typing.get_args(hint)}
    names = [field.name for field in fields(rows[0])]
    writer.writerow([each for n in names for each in ((n, f"{n}_low", f"{n}_high") if n in spread else (n,))])
    for row in rows:
        line: list[Any] = []
        for name in names:
            value = getattr(row, name)
            if name in spread:
                line += [None] * 3 if value is None else [value.median, value.low, value.high]
            else:
                line.append(value)
        writer.writerow(line)
    return text.getvalue()
