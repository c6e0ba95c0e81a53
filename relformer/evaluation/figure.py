"""One picture of some runs for a paper: `relformer figure KIND RUNS out=FILE`."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from relformer.arguments import Arguments, file_to_write
from relformer.errors import OptionError
from relformer.evaluation.compare import compared
from relformer.evaluation.pictures import curve_figure, pareto_figure, scatter_figure
from relformer.evaluation.scores import PERCENT
from relformer.figures.bias_difference import bias_figure
from relformer.files import replacing

COLUMN, PAGE = 3.35, 7.0
WIDTHS = {"column": COLUMN, "page": PAGE}
"""Inches: a column of a two-column paper (85 mm), and the text of a page."""
SUFFIXES = (".pdf", ".svg", ".png")
EMBEDDED: dict[Any, Any] = {"pdf.fonttype": 42, "svg.fonttype": "none", "savefig.dpi": 300}
"""TrueType, which publishers ask for; text in an SVG stays text."""
KINDS = ("curve", "scatter", "pareto", "bias")


def figure_command(arguments: list[str]) -> Path:
    """`relformer figure curve|scatter|pareto|bias RUNS out=F [width=column|page|INCHES] [figure=...] [cost=...]
    [stack=...]`.

    Raises:
        UserError: an unknown option, a file name that says no format, or nothing to draw.
    """
    parser = Arguments(prog="relformer figure", allow_abbrev=False)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("runs", nargs="+", help="run directories, or folders that hold some; for bias one run or two")
    parser.add_argument("--out", type=file_to_write, required=True, metavar="FILE")
    parser.add_argument("--width", default="column", help="column, page, or a number of inches")
    parser.add_argument(
        "--figure",
        choices=("exact_match", "correct_prefix", *PERCENT),
        help="by default exact_match for a curve, correct_prefix elsewhere; of a curve of text bleu or chrf too",
    )
    parser.add_argument("--cost", help="what a pareto figure takes for cost")
    parser.add_argument("--stack", help="whose bias is drawn: encoder, decoder or cross")
    options = parser.parsed(arguments)
    if options.out.suffix not in SUFFIXES:
        raise OptionError("out", str(options.out), f"must end in {', '.join(SUFFIXES)}, which says the format")
    if options.figure in PERCENT and options.kind != "curve":
        raise OptionError("figure", options.figure, "is drawn by length: relformer figure curve")
    width = inches(options.width)
    if options.kind == "bias":
        return save(bias_figure(list(map(Path, options.runs)), options.stack, width), options.out)
    drawn: dict[str, Callable[[], Figure]] = {
        "curve": lambda: curve_figure(comparison, width, options.figure or "exact_match"),
        "scatter": lambda: scatter_figure(comparison, width, options.figure or "correct_prefix"),
        "pareto": lambda: pareto_figure(comparison, options.cost, width, options.figure or "correct_prefix"),
    }
    comparison = compared(options.runs, tests=False)
    return save(drawn[options.kind](), options.out)


def inches(text: str) -> float:
    """Raises OptionError where a width is neither named nor a number that a page can take."""
    try:
        width = WIDTHS[text] if text in WIDTHS else float(text)
    except ValueError:
        width = 0.0
    if not 1 <= width <= 40:
        raise OptionError("width", text, f"is not one of {', '.join(WIDTHS)} or a number of inches from 1 to 40")
    return width


def save(figure: Figure, path: Path) -> Path:
    """Write a figure in the format that the file's name says."""
    content = BytesIO()
    with rc_context(EMBEDDED):
        figure.savefig(content, format=path.suffix[1:])
    with replacing(path) as temporary:
        temporary.write_bytes(content.getvalue())
    print(f"written     {path}")
    return path
