"""`relformer published [RUNS] [out=FILE] [figures=FOLDER]`: published figures beside those of our runs, in tables."""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from relformer.arguments import Arguments
from relformer.config import prepare
from relformer.errors import OptionError, UserError
from relformer.evaluation.figure import save
from relformer.evaluation.groups import Group, find_runs, group_runs
from relformer.files import write_text
from relformer.published.pictures import pictures_of
from relformer.published.rendering import table_lines
from relformer.published.rows import group_of
from relformer.published.tables import Table, published_tables

BEGIN, END = "<!-- published -->", "<!-- /published -->"


def published_command(arguments: list[str]) -> str:
    """Print the tables as Markdown, or put them between the marks of a file.

    Raises:
        UserError: an unknown option, a folder without runs, or a file without the marks.
    """
    parser = Arguments(prog="relformer published", allow_abbrev=False)
    parser.add_argument("runs", nargs="*", help="run directories, or folders that hold some; without, nothing was run")
    parser.add_argument("--out", type=Path, metavar="FILE", help=f"Markdown with {BEGIN} and {END}, replaced between")
    parser.add_argument("--figures", type=Path, metavar="FOLDER", help="write the pictures of the tables; needs out")
    options = parser.parsed(arguments)
    if options.figures is not None and options.out is None:
        raise OptionError("figures", str(options.figures), "needs out=FILE, whose tables show them")
    around = None if options.out is None else marked(options.out)
    prepare()
    print("composing every row, which takes a minute", file=sys.stderr)
    text = "\n".join(
        sections(group_runs(find_runs(options.runs)) if options.runs else [], options.figures, options.out)
    )
    if around is None:
        print(text)
    else:
        write_text(options.out, f"{around[0]}{BEGIN}\n{text}\n{END}{around[1]}")
        print(f"written     {options.out}")
    return text


def marked(path: Path) -> tuple[str, str]:
    """A file's text before and behind the marks.

    Raises:
        UserError: it is not there, or has not both marks once.
    """
    if not path.is_file():
        raise UserError(f"{path} is not a file; make one that holds the lines {BEGIN} and {END}")
    text = path.read_text(encoding="utf-8")
    before, begun, rest = text.partition(BEGIN)
    _, ended, behind = rest.partition(END)
    if not (begun and ended):
        raise UserError(f"{path} lacks the lines {BEGIN} and {END}, between which the tables stand")
    return before, behind


def sections(groups: list[Group], figures: Path | None, out: Path | None) -> Iterator[str]:
    for table in published_tables():
        found = [group_of(row, groups) for row in table.rows]
        yield from table_lines(table, found)
        if figures is not None and out is not None:
            for path in drawn(table, found, figures):
                yield from (f"![{table.title}]({os.path.relpath(path, out.parent)})", "")


def drawn(table: Table, found: list[Group], folder: Path) -> Iterator[Path]:
    """The pictures of a table, written; their files are named for it, in ASCII."""
    title = unicodedata.normalize("NFKD", table.title.lower()).encode("ascii", "ignore").decode()
    name = re.sub(r"\W+", "_", title).strip("_")
    for end, picture in pictures_of(table, found):
        folder.mkdir(parents=True, exist_ok=True)
        yield save(picture, folder / f"{name}_{end}.png")
