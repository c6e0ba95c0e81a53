"""A row of `figures.yaml`, and which finished runs are its: those that its command would make."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from omegaconf import DictConfig

from relformer.config import SLOTS, compose, slots_chosen
from relformer.evaluation.groups import Group, flatten
from relformer.evaluation.scores import PERCENT
from relformer.figures.length_curve import Curve
from relformer.training.resume import run_parts

CURVES = Path(__file__).with_name("curves")
ELSEWHERE = (
    *("seed", "data.path", "data.workers", "data.eval_batch_size", "attention.", "decoding."),
    *("eval.every", "eval.generate", "eval.checkpoint"),
)
"""Parts of a run's configuration that change no weight and no exact match, and the seed."""


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

    def config(self) -> DictConfig:
        """The configuration of one of its runs."""
        return compose(slots_chosen([f"experiment={self.experiment}", *self.overrides]))

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


def group_of(row: Row, groups: Iterable[Group]) -> Group:
    """The runs of a row, whatever their seeds; of two with one seed the later group's."""
    config = row.config()
    wanted = described(run_parts(config) | {"max_steps": config.trainer.max_steps})
    found = Group({}, {})
    for group in groups:
        if same(wanted, described(group.config)):
            found = Group(group.config, {**found.runs, **group.runs}, {**found.paths, **group.paths})
    return found


def described(parts: dict[str, Any]) -> dict[str, Any]:
    """What decides a run's result, by dotted key."""
    return {key: value for key, value in flatten(parts) if not key.startswith(ELSEWHERE)}


def same(wanted: dict[str, Any], stored: dict[str, Any]) -> bool:
    """Whether a stored run is as wanted. One that is older than an option has its default."""
    names = ({key: parts[key] for key in parts if key.endswith(".name")} for parts in (wanted, stored))
    if next(names) != next(names) or any(stored.get(key, value) != value for key, value in wanted.items()):
        return False
    newer = {key: value for key, value in wanted.items() if key not in stored}
    return not newer or newer.items() <= defaults(wanted).items()


def defaults(wanted: dict[str, Any]) -> dict[str, Any]:
    """What a run with the same data and encodings is where nothing else is said."""
    slots = [slot for slot in SLOTS if f"{slot}.name" in wanted]
    chosen = [f"{group}={wanted[f'{group}.name']}" for group in ("data", *slots)]
    return described(run_parts(compose(slots_chosen(chosen))))
