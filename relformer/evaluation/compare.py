"""Runs side by side, grouped by everything but the seed: never one run, never a bare mean."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from relformer.errors import UserError
from relformer.evaluation.report import LEARNED

SEEDS = 5
"""Fewer seeds can't separate anything: 3 against 3 have a smallest two-sided p of .10, 5 against 5 of .008."""


@dataclass(frozen=True)
class Group:
    """Runs that differ in the seed alone: their config without it, and their `metrics.json` by seed."""

    config: dict[str, Any]
    runs: dict[int, dict[str, Any]]

    def values(self, name: str, figure: str = "exact_match") -> list[float]:
        """A figure of one set, one value a seed, from the checkpoint that each run reports."""
        reported = [run["checkpoints"][run["checkpoint"]] for run in self.runs.values()]
        return [figures[name][figure] for figures in reported if name in figures]


def compare_runs(paths: Iterable[str]) -> list[Group]:
    """Print mean, standard deviation, range and n over seeds of every test set, best longer result first.

    Beyond the trained distribution exact match may be 0 for all, so the correct prefix stands beside it.

    Raises:
        UserError: no finished run below the paths.
    """
    paths = list(paths)
    groups = group_runs(find_runs(paths))
    if not groups:
        raise UserError(f"no metrics.json of a run below {', '.join(paths)}")
    names = sorted(
        {n for g in groups for run in g.runs.values() for n in run["checkpoints"]["last"] if n[:5] == "test_"}
    )
    table = Table(box=box.MARKDOWN)
    table.add_column("runs")
    columns = [(name, "exact_match") for name in names]
    columns += [(name, "correct_prefix") for name in names if name != "test_iid"]
    for name, figure in columns:
        table.add_column(f"{name}, {figure.replace('_', ' ')}", justify="right")
    table.add_column("seeds", justify="right")
    table.add_column("s/step", justify="right")
    table.add_column("parameters (position)", justify="right")
    labels = label_groups([group.config for group in groups])
    order = sorted(range(len(groups)), key=lambda i: -statistics.mean(groups[i].values(*columns[-1]) or [0.0]))
    for i in order:
        group = groups[i]
        cost = [run["cost"] for run in group.runs.values()]
        seconds = [c["seconds_per_step"] for c in cost if c["seconds_per_step"]]
        table.add_row(
            labels[i],
            *(spread(group.values(name, figure)) for name, figure in columns),
            str(len(group.runs)),
            f"{statistics.median(seconds):.3f}" if seconds else "",
            f"{cost[0]['parameters']:,} ({cost[0]['position_parameters']:,})",
        )
    Console(width=None if Console().is_terminal else 200).print(table)
    print("mean ± standard deviation (range) over seeds")
    for i in order:
        for warning in warnings_of(groups[i]):
            print(f"{labels[i]}: {warning}")
    return groups


def find_runs(paths: Iterable[str]) -> list[Path]:
    found: list[Path] = []
    for path in map(Path, paths):
        below = [path] if path.name == "metrics.json" else sorted(path.glob("**/metrics.json"))
        root = path.parent if path.name == "metrics.json" else path
        found += [p for p in below if "evaluations" not in p.relative_to(root.parent).parts and p not in found]
    if not found:
        raise UserError(f"no finished run (metrics.json) below {', '.join(paths)}; is training done?")
    return found


def group_runs(paths: Iterable[Path]) -> list[Group]:
    """Groups in the order met; of two runs with one config and one seed the newer counts, and that is said."""
    groups: dict[str, Group] = {}
    for path in sorted(paths, key=lambda p: p.stat().st_mtime):
        try:
            run = json.loads(path.read_text(encoding="utf-8"))
            seed = run["config"]["seed"]
        except (ValueError, KeyError, TypeError) as error:
            print(f"{path} is left out: it is not a run's metrics.json ({type(error).__name__})", file=sys.stderr)
            continue
        config = {key: value for key, value in run["config"].items() if key not in ("seed", "vocabulary")}
        group = groups.setdefault(json.dumps(config, sort_keys=True), Group(config, {}))
        if seed in group.runs:
            print(f"seed {seed} was run twice with one configuration; {path.parent} counts", file=sys.stderr)
        group.runs[seed] = run
    return list(groups.values())


def label_groups(configs: list[dict[str, Any]]) -> list[str]:
    """What sets each group apart: the options in which not all agree; the encoding's name where there is one group."""
    flat = [dict(flatten(config)) for config in configs]
    keys = sorted({key for each in flat for key in each})
    apart = [key for key in keys if len({json.dumps(each.get(key)) for each in flat}) > 1]
    for group in ("data", "encoding", "decoder_encoding", "cross_encoding", "optimizer"):
        if f"{group}.name" in apart:  # the options of another one differ with it
            apart = [key for key in apart if not key.startswith(f"{group}.") or key == f"{group}.name"]
    if "data.name" in apart:
        apart = [key for key in apart if key not in ("max_steps", "trained_length")]
    if not apart or (
        all("encoding" in key for key in apart) and len({each["encoding.name"] for each in flat}) == len(flat)
    ):
        return [str(each["encoding.name"]) for each in flat]
    return [", ".join(f"{key}={each[key]}" for key in apart if key in each) for each in flat]


def flatten(node: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in node.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def spread(values: list[float]) -> str:
    if not values:
        return "-"
    deviation = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.3f}{deviation} ({min(values):.3f} - {max(values):.3f})"


def warnings_of(group: Group) -> Iterable[str]:
    if len(group.runs) < SEEDS:
        yield f"{len(group.runs)} seeds; fewer than {SEEDS} can't separate two encodings"
    iid = group.values("test_iid")
    if weak := [value for value in iid if value < LEARNED]:
        yield f"{len(weak)} of {len(iid)} runs are below {LEARNED} in distribution: beyond-length not interpretable"
