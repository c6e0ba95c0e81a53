"""A row of `figures.yaml`: a published figure, and the command that measures it here."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from relformer.evaluation.scores import PERCENT
from relformer.figures.length_curve import Curve

CURVES = Path(__file__).with_name("curves")


@dataclass(frozen=True)
class Row:
    """A published figure, None in a claim of our own, and what measures it here: `overrides` of an experiment."""

    name: str
    experiment: str
    overrides: tuple[str, ...]
    published: float | None
    statistic: str
    mark: Literal["V", "R", ""]
    set: str
    figure: str
    x: int | None = None
    """Where the row stands in the picture of a claim: numbers that a head learns of distance."""
    curve: Curve | None = None
    """The published figures by length, where they are at hand."""

    @property
    def command(self) -> str:
        return " ".join(("python train.py -m", f"experiment={self.experiment}", *self.overrides))

    @property
    def of_text(self) -> bool:
        return self.figure in PERCENT


def rows_of(table: dict[str, Any]) -> Iterator[Row]:
    curves = published_curves(CURVES / table["curves"]) if "curves" in table else {}
    for own in table["rows"]:
        row = {"published": None, "statistic": "", "mark": "", "x": None, **table, **own}
        overrides = (*table.get("with", ()), *own["with"])
        values = {key: row[key] for key in ("experiment", "published", "statistic", "mark", "set", "figure", "x")}
        name = str(own["row"])
        yield Row(name=name, overrides=overrides, curve=curves.get(name), **values)


def published_curves(path: Path) -> dict[str, Curve]:
    """Of each row in a CSV of `row,length,n,exact_match,min,max` its curve, between the least and greatest seed."""
    lines: dict[str, list[dict[str, str]]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            lines.setdefault(line["row"], []).append(line)
    found = {}
    for name, of_row in lines.items():
        length, value, low, high = ([float(x[key]) for x in of_row] for key in ("length", "exact_match", "min", "max"))
        found[name] = Curve(
            name, length, [x["length"] for x in of_row], value, low, high, [int(x["n"]) for x in of_row]
        )
    return found
