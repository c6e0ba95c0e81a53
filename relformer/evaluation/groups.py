"""Finished runs, grouped by everything but the seed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from relformer.data.corpus import DataOptions
from relformer.errors import UserError
from relformer.evaluation.scores import METRICS, PERCENT, scores_of
from relformer.evaluation.summary import bucket_edges

NOT_CONTENT = set(DataOptions.__dataclass_fields__) - {"seed", "split_by_length"}
"""Options of the data that leave every sentence of a test as it is."""

TUNING = "tuning"
"""The folder of the runs that chose the options of others, beside a record of this name."""
Bucket = tuple[int, int]
"""Shortest and longest length in it."""


@dataclass(frozen=True)
class Group:
    """Runs that differ in the seed alone: their config without it, and their `metrics.json` and its path by seed."""

    config: dict[str, Any]
    runs: dict[int, dict[str, Any]]
    paths: dict[int, Path] = field(default_factory=dict)

    def by_seed(self, name: str, figure: str = "exact_match", checkpoint: str | None = None) -> dict[int, float]:
        """A figure of one set, one value a seed, from the checkpoint that each run reports unless told which. Text is
        scored of that one alone."""
        found = {}
        for seed, run in sorted(self.runs.items()):
            figures = dict(self.figures(seed, checkpoint).get(name, {}))
            if checkpoint in (None, run["checkpoint"]):
                figures |= scores_of(run, name)
            if figure in figures:
                found[seed] = float(figures[figure])
        return found

    def values(self, name: str, figure: str = "exact_match", checkpoint: str | None = None) -> list[float]:
        return list(self.by_seed(name, figure, checkpoint).values())

    def figures(self, seed: int, checkpoint: str | None = None) -> dict[str, Any]:
        run = self.runs[seed]
        found: dict[str, Any] = run["checkpoints"].get(checkpoint or run["checkpoint"], {})
        return found

    def sets(self) -> set[str]:
        """The test sets that its runs have."""
        return {n for seed in self.runs for n in self.figures(seed) if n.startswith("test_")}

    def lengths(self, name: str) -> set[int]:
        """The lengths of which a set has figures, in any of the runs."""
        return {low for seed in self.runs for (low, _), _, _ in self.by_bucket(seed, name, "exact_match")}

    def by_bucket(self, seed: int, name: str, figure: str) -> list[tuple[Bucket, int, float]]:
        """What a run says of a figure by length: the lengths, how many sentences, the value. A length stands alone, but
        for BLEU and chrF, which are of many sentences: these have the buckets that the run made."""
        scores = figure in PERCENT
        sets = self.runs[seed].get("generated", {}) if scores else self.figures(seed)
        found = []
        for each in sets.get(name, {}).get("by_length", []):
            if figure in each:
                value = each[figure]["score"] if scores else each[figure]
                found.append(((each["min_length"], each["max_length"]), each["n"], float(value)))
        return found

    def by_length(self, name: str, edges: Iterable[Bucket], figure: str = "exact_match") -> dict[Bucket, list[float]]:
        """A figure of one set in buckets of lengths, one value a seed, sentences counting alike."""
        found: dict[Bucket, list[float]] = {}
        for edge in edges:
            for seed in sorted(self.runs):
                inside = self.inside(seed, name, edge, figure)
                if total := sum(n for n, _ in inside):
                    found.setdefault(edge, []).append(sum(n * value for n, value in inside) / total)
        return found

    def inside(self, seed: int, name: str, edge: Bucket, figure: str) -> list[tuple[int, float]]:
        """Sentences and values of a run between two lengths. BLEU of several buckets is no mean: only one will do."""
        buckets = self.by_bucket(seed, name, figure)
        if figure in PERCENT:
            return [(n, value) for bucket, n, value in buckets if bucket == edge]
        return [(n, value) for (low, _), n, value in buckets if edge[0] <= low <= edge[1]]

    def sentences(self, name: str, edge: Bucket | None = None, figure: str = "exact_match") -> int:
        """How many sentences a set has, or those of a bucket, in the run that has fewest."""
        if edge is None:
            return min((self.figures(seed).get(name, {}).get("n", 0) for seed in self.runs), default=0)
        return min((sum(n for n, _ in self.inside(seed, name, edge, figure)) for seed in self.runs), default=0)

    @property
    def costs(self) -> dict[str, list[float]]:
        """What `metrics.json` says of cost, a value a run where it was measured."""
        found: dict[str, list[float]] = {}
        for run in self.runs.values():
            for key, value in run.get("cost", {}).items():
                if isinstance(value, int | float):
                    found.setdefault(key, []).append(value)
        return found

    @property
    def content(self) -> str:
        """What makes the sentences of its data what they are: groups are compared where it is equal."""
        data = self.config.get("data", {})
        return json.dumps({key: value for key, value in data.items() if key not in NOT_CONTENT}, sort_keys=True)


def edges_of(groups: Iterable[Group], name: str, figure: str = "exact_match") -> list[Bucket]:
    """The buckets of lengths into which a set is told apart, the same for all groups."""
    if figure in PERCENT:
        runs = ((group, seed) for group in groups for seed in group.runs)
        return sorted({bucket for group, seed in runs for bucket, _, _ in group.by_bucket(seed, name, figure)})
    return bucket_edges(sorted({length for group in groups for length in group.lengths(name)}))


def find_runs(paths: Iterable[str]) -> list[Path]:
    """Every `metrics.json` of a run at or below the paths; a folder without one is named on stderr.

    Raises:
        UserError: a path that is not there, or no run at all.
    """
    found: list[Path] = []
    empty: list[Path] = []
    for path in map(Path, paths):
        if not path.exists():
            raise UserError(f"{path} is not there; give run directories, or folders that hold some")
        runs = [path] if path.name == "metrics.json" else runs_below(path)
        if not runs:
            empty.append(path)
        found += [p for p in runs if p not in found]
    if not found:
        raise UserError(f"no finished run (metrics.json) below {', '.join(paths)}; is training done?")
    for path in empty:
        print(f"{path} is left out: there is no finished run (metrics.json) below it", file=sys.stderr)
    return found


def runs_below(folder: Path) -> list[Path]:
    """The `metrics.json` of runs, not of their later evaluations, nor of runs that chose options in a sweep below."""
    found = sorted(path for path in folder.glob("**/metrics.json") if path.is_file())
    found = [path for path in found if "evaluations" not in path.relative_to(folder.parent).parts]
    choosing = [place for place in folder.glob(f"**/{TUNING}.json") if place.with_suffix("").is_dir()]
    return [path for path in found if not any(path.is_relative_to(place.with_suffix("")) for place in choosing)]


def group_runs(paths: Iterable[Path]) -> list[Group]:
    """Groups in the order met; of two runs with one config and one seed the newer counts, and that is said.

    Raises:
        UserError: none of the files is a run's.
    """
    groups: dict[str, Group] = {}
    paths = sorted(paths, key=lambda p: p.stat().st_mtime)
    for path in paths:
        try:
            run = json.loads(path.read_text(encoding="utf-8"))
            check_run(run)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            why = f"{type(error).__name__}: {error}"
            print(f"{path} is left out: it is not a run's metrics.json ({why})", file=sys.stderr)
            continue
        seed = run["config"]["seed"]
        config = {key: value for key, value in run["config"].items() if key not in ("seed", "vocabulary")}
        group = groups.setdefault(json.dumps(config, sort_keys=True), Group(config, {}))
        if seed in group.runs:
            print(f"seed {seed} was run twice with one configuration; {path.parent} counts", file=sys.stderr)
        group.runs[seed], group.paths[seed] = run, path
    if not groups:
        raise UserError(f"no metrics.json of a run among {', '.join(map(str, paths))}")
    return list(groups.values())


def check_run(run: Any) -> None:
    """What is read of a run's `metrics.json` is there, and its figures are possible ones.

    Raises:
        ValueError, LookupError, TypeError, AttributeError: it is not.
    """
    if type(seed := run["config"]["seed"]) is not int:
        raise ValueError(f"config.seed is {seed!r}, which is no integer")
    for key, of in (("encoding", run["config"]), ("checkpoints", run), ("cost", run)):
        dict(of[key])
    for each in run["config"].get("changes", []):
        int(each["step"]), dict(each["options"])
    reported = run["checkpoints"][run["checkpoint"]]
    tests = {name: figures for name, figures in reported.items() if name.startswith("test_")}
    for name, figures in tests.items():
        for each in (figures, *figures.get("by_length", [])):
            check_figures(f"{name}, ", each, ("exact_match", "correct_prefix"), 1.0)
        check_buckets(figures)
    for name, scores in run.get("generated", {}).items():
        for each in (scores, *scores.get("by_length", [])):
            found = {metric: float(each[metric]["score"]) for metric in METRICS if metric in each}
            check_figures(f"{name}, ", found, PERCENT, 100.0)
            if unsigned := [metric for metric in found if not isinstance(each[metric]["signature"], str)]:
                raise ValueError(f"{name}, {unsigned[0]} has no signature")
        check_buckets(scores)


def check_buckets(figures: Mapping[str, Any]) -> None:
    for each in figures.get("by_length", []):
        int(each["min_length"]), int(each["max_length"]), int(each["n"])


def check_figures(of: str, figures: Mapping[str, Any], names: Iterable[str], most: float) -> None:
    for name in names:
        if name in figures and not 0 <= float(figures[name]) <= most + 1e-9:  # not a number fails as well
            raise ValueError(f"{of}{name} is {figures[name]!r}, which is not in 0 to {most:.0f}")


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
    without = f"without {', '.join(dict.fromkeys(key.partition('.')[0] for key in apart))}"
    return [", ".join(named(key, each[key]) for key in apart if key in each) or without for each in flat]


def named(key: str, value: Any) -> str:
    if key == "changes":
        return f"changed at step {', '.join(str(each['step']) for each in value)}"
    return str(value) if key == "encoding.name" else f"{key}={value}"


def flatten(node: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in node.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
