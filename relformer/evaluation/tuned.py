"""What chose the learning rates of a comparison: read from the `tuning.json` that a sweep leaves, shown as a table.

The runs that chose stand in the sweep's folder `tuning` and are never compared: their seeds were looked at.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relformer.data.text.cache import key_of
from relformer.errors import UserError
from relformer.evaluation.fairness import Warned, listed
from relformer.evaluation.groups import TUNING, Group
from relformer.evaluation.tables import Table

RECORD = f"{TUNING}.json"
OBJECTIVE = "val/iid/loss"


@dataclass(frozen=True)
class Tuned:
    """One group's learning rates, each with its loss on `val_iid` for each of the seeds (None: not a number), and the
    one that was chosen. While it is tuned there is none, and `key` is empty."""

    overrides: list[str]
    rates: list[float]
    seeds: list[int]
    losses: list[list[float | None]]
    chosen: float | None = None
    key: str = ""

    @property
    def means(self) -> list[float]:
        """Over the seeds, by rate; infinite where a run diverged."""
        return [statistics.mean(math.inf if each is None else each for each in row) for row in self.losses]

    @property
    def edge(self) -> str:
        """Which end of the rates the chosen one is at, if it is at one."""
        ends = {min(self.rates): "smallest", max(self.rates): "largest"}
        return ends.get(self.chosen, "") if self.chosen is not None else ""


def tuning_key(config: Mapping[str, Any]) -> str:
    """Equal for runs that differ in seed and learning rate alone, by the config in their `metrics.json`."""
    parts = {key: value for key, value in config.items() if key not in ("seed", "vocabulary")}
    return key_of(parts | {"optimizer": {k: v for k, v in parts.get("optimizer", {}).items() if k != "lr"}})


def read_record(path: Path) -> list[Tuned]:
    """All that was ever tuned in a folder, oldest first. Raises UserError where the file is damaged."""
    if not path.exists():
        return []
    try:
        return [Tuned(**each) for each in json.loads(path.read_text(encoding="utf-8"))["groups"]]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is not a record of tuning ({error}); move it away, and sweep again") from None


def tuned(group: Group) -> Tuned | None:
    """What chose a group's learning rate, if anything did: the newest record in a folder above its runs."""
    key, rate = tuning_key(group.config), group.config.get("optimizer", {}).get("lr")
    for folder in dict.fromkeys(parent for path in group.paths.values() for parent in path.parents):
        for each in reversed(read_record(folder / RECORD)):
            if each.chosen is not None and (each.key, each.chosen) == (key, rate):
                return each
    return None


def tuning_table(groups: Sequence[Group], labels: Sequence[str]) -> Table:
    """Without rows where nothing was tuned."""
    found = [(label, each) for g, label in zip(groups, labels, strict=True) if (each := tuned(g)) is not None]
    rates = sorted({rate for _, each in found for rate in each.rates})
    rows = []
    for label, each in found:
        means = dict(zip(each.rates, each.means, strict=True))
        cells = ["-" if (mean := means.get(rate)) is None else loss(mean) for rate in rates]
        rows.append([label, *cells, f"{each.chosen:g}", listed(each.seeds)])
    note = (
        "mean loss on val_iid, nats a token, over the seeds named here, whose runs are in no other table; the least is "
        "chosen, for all other seeds"
    )
    return Table("Learning rates tried", ["runs", *(f"{rate:g}" for rate in rates), "chosen", "seeds"], rows, note)


def loss(mean: float) -> str:
    return f"{mean:.4f}" if math.isfinite(mean) else "diverged"


def tuning_warnings(groups: Sequence[Group], labels: Sequence[str]) -> Iterator[Warned]:
    """A rate at the edge of those tried, a seed that chose, and unequal budgets."""
    found = [tuned(group) for group in groups]
    for group, label, each in zip(groups, labels, found, strict=True):
        if each is None:
            continue
        if each.edge:
            yield Warned(label, f"its learning rate is the {each.edge} that was tried: one beyond it may be better")
        if both := sorted(set(each.seeds) & set(group.runs)):
            yield Warned(label, f"seeds {listed(both)} chose its learning rate: they are not fresh", grave=True)
    budgets = [None if each is None else (tuple(each.rates), tuple(each.seeds)) for each in found]
    if len(set(budgets)) > 1:
        parts = "; ".join(
            f"{label}: "
            + ("nothing" if each is None else f"{', '.join(f'{r:g}' for r in each[0])} x {len(each[1])} seeds")
            for label, each in zip(labels, budgets, strict=True)
        )
        yield Warned("all", f"unequal tuning ({parts})")
