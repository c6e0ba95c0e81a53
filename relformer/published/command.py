"""`relformer published [RUNS] [out=FILE] [figures=FOLDER]`: published figures beside those of our runs, in tables."""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from relformer.arguments import Arguments, file_to_write, folder_to_write
from relformer.config import prepare
from relformer.errors import OptionError, UserError
from relformer.evaluation.figure import save
from relformer.evaluation.groups import Group, find_runs, group_runs
from relformer.files import write_text
from relformer.published.matching import group_of, say_unused
from relformer.published.pictures import pictures_of
from relformer.published.rendering import table_lines
from relformer.published.tables import Table, published_tables

BEGIN, END = "<!-- published -->", "<!-- /published -->"


def published_command(arguments: list[str]) -> str:
    """Print the tables as Markdown, or put them between the marks of a file.

    Raises:
        UserError: an unknown option, a folder without runs, or a file without the marks.
    """
    parser = Arguments(prog="relformer published", allow_abbrev=False)
    parser.add_argument("runs", nargs="*", help="run directories, or folders that hold some; without, nothing was run")
    parser.add_argument(
        "--out", type=file_to_write, metavar="FILE", help=f"Markdown with {BEGIN} and {END}, replaced between"
    )
    parser.add_argument(
        "--figures", type=folder_to_write, metavar="FOLDER", help="write the pictures of the tables; needs out"
    )
    options = parser.parsed(arguments)
    if options.figures is not None and options.out is None:
        raise OptionError("figures", str(options.figures), "needs out=FILE, whose tables show them")
    around = None if options.out is None else marked(options.out)
    prepare()
    print("composing every row, which takes a minute", file=sys.stderr)
    groups = group_runs(find_runs(options.runs)) if options.runs else []
    text = "\n".join(sections(groups, options.figures, options.out))
    if around is None:
        print(text)
    else:
        write_text(options.out.resolve(), f"{around[0]}{BEGIN}\n{text}\n{END}{around[1]}")
        print(f"written     {options.out}")
    return text


def marked(path: Path) -> tuple[str, str]:
    """A file's text before and behind the marks.

    Raises:
        UserError: it is not there, is no text, or has not each mark once, on a line of its own.
    """
    if not path.is_file():
        raise UserError(f"{path} is not a file; make one that holds the lines {BEGIN} and {END}")
    try:
        with path.open(encoding="utf-8", newline="") as file:  # other ends of lines stay as they are
            text = file.read()
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 ({error}); save it as UTF-8") from None
    begun, ended = ([*re.finditer(rf"^{re.escape(mark)}(?=\r?$)", text, re.MULTILINE)] for mark in (BEGIN, END))
    if len(begun) != 1 or len(ended) != 1 or ended[0].start() < begun[0].end():
        raise UserError(f"{path} needs the lines {BEGIN} and {END} once each, in this order; the tables go between")
    return text[: begun[0].start()], text[ended[0].end() :]


def sections(groups: list[Group], figures: Path | None, out: Path | None) -> Iterator[str]:
    tables = published_tables()
    for table in tables:
        found = [group_of(row, groups) for row in table.rows]
        yield from table_lines(table, found)
        if figures is not None and out is not None:
            for path in drawn(table, found, figures):
                yield from (f"![{table.title}]({os.path.relpath(path, out.parent)})", "")
    say_unused([row for table in tables for row in table.rows], groups)


def drawn(table: Table, found: list[Group], folder: Path) -> Iterator[Path]:
    """The pictures of a table, written; their files are named for it, in ASCII."""
    title = unicodedata.normalize("NFKD", table.title.lower()).encode("ascii", "ignore").decode()
    name = re.sub(r"\W+", "_", title).strip("_")
    for end, picture in pictures_of(table, found):
        folder.mkdir(parents=True, exist_ok=True)
        yield save(picture, folder / f"{name}_{end}.png")
