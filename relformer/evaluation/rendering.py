"""Tables of a comparison for a terminal, for LaTeX and for one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from relformer.evaluation.fairness import Warned
from relformer.evaluation.tables import Table

LATEX = {
    "\\": r"\textbackslash{}",
    **{each: f"\\{each}" for each in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "<": "$<$",
    ">": "$>$",
}
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; color: #222; }
table { border-collapse: collapse; margin: .5em 0; font-size: 14px; display: block; overflow-x: auto; }
th, td { border-bottom: 1px solid #ddd; padding: .25em .7em; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.note { color: #666; font-size: 13px; }
.few { color: #aaa; }
.grave { color: #b00020; font-weight: bold; }
img { max-width: 100%; }
"""


def print_tables(tables: Sequence[Table], warnings: Sequence[Warned]) -> None:
    """Markdown tables on a terminal; 200 columns wide where the output is not one."""
    console = Console(width=None if Console().is_terminal else 200)
    for table in tables:
        made = RichTable(box=box.MARKDOWN)
        for place, name in enumerate(table.head):
            style = "bright_black" if place in table.grey else None
            made.add_column(escape(name), justify="right" if place else "left", style=style)
        for row in table.rows:
            made.add_row(*map(escape, row))
        console.print(f"[bold]{escape(table.title)}[/bold]")
        console.print(made)
        console.print(f"{escape(table.note)}\n", soft_wrap=True)
    for each in warnings:
        style = "bold red" if each.grave else None
        console.print(f"{each.about}: {each.text}", style=style, markup=False, highlight=False, soft_wrap=True)


def to_latex(tables: Sequence[Table], warnings: Sequence[Warned]) -> str:
    """A `table` environment a table, for `\\input` in a document that loads the packages named in its first line.

    Warnings are comments; what is wider than the text is scaled down to it.
    """
    lines = ["% needs \\usepackage{booktabs,graphicx,xcolor}"]
    lines += [f"% {line}" for each in warnings for line in f"{each.about}: {each.text}".splitlines()]
    for number, table in enumerate(tables):
        lines += [
            r"\begin{table}[ht]",
            r"\centering",
            f"\\caption{{{in_latex(table.title)}. {in_latex(table.note)}.}}",
            f"\\label{{tab:compare-{number}}}",
            r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
            f"\\begin{{tabular}}{{l{'r' * (len(table.head) - 1)}}}",
            r"\toprule",
            in_row(table, table.head),
            r"\midrule",
            *(in_row(table, row) for row in table.rows),
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table}",
            "",
        ]
    return "\n".join(lines)


def in_row(table: Table, cells: Sequence[str]) -> str:
    """Columns of few sentences grey; braces keep a cell that begins with a bracket from being an option of `\\\\`."""
    made = [in_latex(cell) for cell in cells]
    made = [f"\\textcolor{{gray}}{{{cell}}}" if place in table.grey else cell for place, cell in enumerate(made)]
    return f"{' & '.join(f'{{{cell}}}' if cell.startswith('[') else cell for cell in made)} \\\\"


def in_latex(text: str) -> str:
    return "".join(LATEX.get(each, each) for each in text)


def to_html(title: str, tables: Sequence[Table], warnings: Sequence[Warned], figures: Mapping[str, Figure]) -> str:
    """One file, pictures within it."""
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(title)}</title>",
        f"<style>{STYLE}</style><h1>{html.escape(title)}</h1>",
    ]
    if warnings:
        points = "".join(
            f"<li{' class=grave' if each.grave else ''}>{html.escape(f'{each.about}: {each.text}')}"
            for each in warnings
        )
        parts.append(f"<h2>Before you conclude</h2><ul>{points}</ul>")
    for table in tables:
        rows = "".join(in_html(table, row, "td") for row in table.rows)
        parts.append(
            f"<h2>{html.escape(table.title)}</h2><table>{in_html(table, table.head, 'th')}{rows}</table>"
            f"<p class=note>{html.escape(table.note)}</p>"
        )
    for name, figure in figures.items():
        parts.append(f"<h2>{html.escape(name)}</h2><img alt='{html.escape(name)}' src='{inline(figure)}'>")
    return "\n".join([*parts, "</html>\n"])


def in_html(table: Table, row: Sequence[str], tag: str) -> str:
    cells = "".join(
        f"<{tag}{' class=few' if place in table.grey else ''}>{html.escape(cell)}</{tag}>"
        for place, cell in enumerate(row)
    )
    return f"<tr>{cells}</tr>"


def inline(figure: Figure) -> str:
    """A figure as the address of a picture that stands in the file itself."""
    content = io.BytesIO()
    figure.savefig(content, format="svg")
    return f"data:image/svg+xml;base64,{base64.b64encode(content.getvalue()).decode()}"
