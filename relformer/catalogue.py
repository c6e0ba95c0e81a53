"""The registered encodings as a person reads them: the table, and one with its formula and options."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

import relformer.encodings  # noqa: F401  registers them
from relformer.registry import Entry, described, encodings

FAMILIES = ("none", "absolute", "sampler", "bias", "contextual", "rotary", "modifier", "combination")
COLUMNS = ("name", "family", "changes", "learned", "beyond", "slots", "paper")
HEADS = {"beyond": "beyond the trained length"}


def rows() -> Iterator[dict[str, str]]:
    """The facts of every encoding, by family."""

    def place(name: str) -> tuple[int, str]:
        family = encodings[name].facts.get("family", "")
        return (FAMILIES.index(family) if family in FAMILIES else len(FAMILIES), name)

    for name in sorted(encodings, key=place):
        facts = encodings[name].facts
        yield {"name": name, "slots": slots(encodings[name])} | {k: v for k, v in facts.items() if k in COLUMNS}


def slots(entry: Entry) -> str:
    """Where it can stand: a method that acts on a stack's input has no place in cross-attention."""
    cls = entry.cls
    at_input = entry.facts.get("family") in ("absolute", "sampler")
    taken = [role for role in ("encoder", "decoder", "cross") if role not in cls.refuses]  # type: ignore[attr-defined]
    return ", ".join(role for role in taken if not (role == "cross" and at_input))


def print_catalogue() -> None:
    table = Table()
    for column in COLUMNS:
        table.add_column(HEADS.get(column, column), no_wrap=column in ("name", "paper"))
    last = ""
    for row in rows():
        if last and row["family"] != last:
            table.add_section()
        last = row["family"]
        table.add_row(*(row.get(column, "") for column in COLUMNS))
    console = Console()
    Console(width=console.width if console.is_terminal else 160).print(table)
    print("relformer encodings show NAME prints the formula and the options of one")


def markdown() -> str:
    """The table of the README."""
    lines = [f"| {' | '.join(HEADS.get(c, c) for c in COLUMNS)} |", f"|{' --- |' * len(COLUMNS)}"]
    for row in rows():
        cells = [row.get(column, "") for column in COLUMNS]
        cells[0] = f"`{cells[0]}`"
        cells[-1] = f"[{cells[-1]}](https://arxiv.org/abs/{cells[-1]})" if cells[-1] else ""
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def show(name: str) -> None:
    """Print one encoding: the formula from its module's docstring (or its own), its options, its slots.

    Raises:
        UserError: no such encoding, with the nearest name.
    """
    entry = encodings[name]
    module = inspect.getmodule(entry.cls)
    doc = (module and module.__doc__) or entry.cls.__doc__ or ""
    print(f"{name}\n\n{inspect.cleandoc(doc)}\n\nslots: {slots(entry)}")
    for role, reason in entry.cls.refuses.items():  # type: ignore[attr-defined]
        print(f"  not as {role}: {reason}")
    print("\noptions (encoding.NAME=VALUE):")
    for option, kind in entry.options().items():
        choices = typing.get_args(kind.type) if typing.get_origin(kind.type) is typing.Literal else ()
        kind_words = " | ".join(map(str, choices)) if choices else described(kind.type)
        print(f"  {option} = {'null' if kind.default is None else kind.default}   ({kind_words})")
    print(f"  share = {entry.cls.share}   (stack | layer)\n  layers = all   (all, or a list of numbers)")  # type: ignore[attr-defined]
