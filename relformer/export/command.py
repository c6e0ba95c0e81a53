"""The command: which run, which folder, which form."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from relformer.config import prepare
from relformer.errors import OptionError, UserError
from relformer.training.trained import open_run

FORMATS = ("folder", "torch_export")


def export_command(arguments: Sequence[str]) -> None:
    """`relformer export RUN to=FOLDER [format=folder] [length=N] [eval.checkpoint=best_val] [average=5]`.

    Raises:
        UserError: no such run, a folder that is taken, or options that don't fit.
    """
    run, *rest = arguments
    own = dict(argument.split("=", 1) for argument in rest if argument.split("=")[0] in ("to", "format", "length"))
    overrides = [argument for argument in rest if argument.split("=")[0] not in own]
    to, form = own.get("to", ""), own.get("format", "folder")
    if not to:
        raise UserError("export needs a folder: relformer export runs/.../STAMP to=FOLDER")
    if form not in FORMATS:
        raise UserError(f"format={form!r} is not one of {', '.join(FORMATS)}")
    if "length" in own and form == "folder":
        raise UserError("length is an option of format=torch_export")
    prepare()
    trained = open_run(run, overrides)
    if form == "folder":
        from relformer.export.folder import export_folder

        export_folder(trained, Path(to))
        print(f"folder      {to}\ntranslate   relformer translate {to} input=FILE")
        return
    from relformer.export.graphs import export_graphs

    length = own.get("length", "128")
    if not length.isdecimal() or int(length) < 2:
        raise OptionError("length", length, "must be a whole number of at least 2: the most tokens of a side")
    for line in export_graphs(trained, Path(to), int(length)):
        print(line)
