"""A run as its directory tells it, finished or not: everything but the configuration and the log may be missing."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from relformer.errors import UserError
from relformer.evaluation.scores import scores_of
from relformer.redaction import redact
from relformer.training.lock import is_held

LOG = "csv/metrics.csv"
ELSEWHERE = ("paths", "hydra", "callbacks", "logger", "name", "resume", "experiment")
"""Parts of a configuration that say nothing of what was trained."""
Numbers = Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """One run. `log` has a row a logged step, by column; `metrics` is `metrics.json`, None before the end."""

    directory: Path
    name: str
    settings: dict[str, Any]
    log: list[dict[str, float]]
    metrics: dict[str, Any] | None
    maps: dict[str, dict[int, Path]] = field(default_factory=dict)
    """By slot and step, the `.npz` files of BiasHeatmaps."""

    @property
    def state(self) -> str:
        """finished, or how far it is and whether it still goes on, as its lock tells."""
        if self.metrics is not None:
            return "finished"
        step, whole = self.step, self.settings.get("trainer.max_steps")
        of = f" of {whole}" if isinstance(whole, int) else ""
        return f"{'running' if is_held(self.directory) else 'interrupted'} at step {step}{of}"

    @property
    def step(self) -> int:
        return int(max((row["step"] for row in self.log), default=0))

    def column(self, name: str) -> tuple[list[float], list[float]]:
        """Steps and values of a column of the log, of steps trained twice the last."""
        found = {row["step"]: row[name] for row in self.log if name in row}
        return sorted(found), [found[step] for step in sorted(found)]

    @cached_property
    def headline(self) -> dict[str, Any]:
        """The figures by set of the checkpoint that the run reports; of an unfinished one, its last validation."""
        if self.metrics is not None:
            found = self.metrics["checkpoints"][self.metrics["checkpoint"]]
            sets = {name: figures for name, figures in found.items() if isinstance(figures, dict)}
            return {name: {**figures, **scores_of(self.metrics, name)} for name, figures in sets.items()}
        return {f"val_{name}": figures for name, figures in self.validated.items()}

    @cached_property
    def validated(self) -> dict[str, dict[str, Any]]:
        """The last validation in the log: figures by set, with those by length that it holds."""
        found: dict[str, dict[str, Any]] = {}
        for row in self.log:
            for key, value in row.items():
                if not (match := re.fullmatch(r"val/([^/]+)/(?:(by_length)/)?([^/]+)", key)):
                    continue
                figures = found.setdefault(match[1], {})
                if match[2]:
                    figures.setdefault("exact_by_length", {})[match[3]] = value
                else:
                    figures[match[3]] = value
        return found

    @property
    def trained_length(self) -> int | None:
        return None if self.metrics is None else int(self.metrics["trained_length"])

    @property
    def length_side(self) -> str:
        config = {} if self.metrics is None else self.metrics.get("config", {})
        return str(config.get("length_side", "target"))

    def files(self, pattern: str) -> list[Path]:
        return sorted(self.directory.glob(pattern))


def read_run(directory: Path) -> Run:
    """Raises UserError where there is no log, or a file of the run is not what a run writes."""
    log = directory / LOG
    if not log.is_file():
        raise UserError(f"{directory} is not a run: it has no {LOG}")
    metrics = read_metrics(directory / "metrics.json")
    return Run(
        directory,
        directory.parent.name if re.fullmatch(r"\d{8}-\d{6}.*|\d+", directory.name) else directory.name,
        read_settings(directory, metrics),
        list(read_log(log)),
        metrics,
        {slot: found for slot in ("encoder", "decoder", "cross") if (found := maps_of(directory, slot))},
    )


def find_runs(path: Path) -> list[Run]:
    """The run at a path, or all below it.

    Raises:
        UserError: there is none.
    """
    if (path / LOG).exists():
        return [read_run(path)]
    logs = sorted(path.glob(f"**/{LOG}"))
    if not logs:
        raise UserError(f"no run in {path.resolve()}: nothing below it has a {LOG}")
    return [read_run(log.parent.parent) for log in logs]


def read_log(path: Path) -> Iterator[dict[str, float]]:
    """Rows without their empty cells; a line that a kill cut short is left out."""
    with read_as("the log of a run", path), path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if None in row or None in row.values():
                continue
            try:
                yield {key: float(value) for key, value in row.items() if value}
            except ValueError:
                continue


@contextmanager
def read_as(what: str, path: Path) -> Iterator[None]:
    """Name the file that can't be read as what it should be."""
    try:
        yield
    except (ValueError, KeyError, TypeError, RecursionError, csv.Error, YAMLError, OmegaConfBaseException) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"{path} is not {what} ({type(error).__name__}: {reason}); remove it, or the run") from None


def read_metrics(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    with read_as("the metrics.json of a run", path):
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        for name, figures in content["checkpoints"][content["checkpoint"]].items():
            if not isinstance(figures, dict | int):
                raise ValueError(f"{name} holds no figures")
    return content


def read_settings(directory: Path, metrics: Mapping[str, Any] | None) -> dict[str, Any]:
    """What was trained, flat: `encoding.name` and so on. Of a run without `.hydra`, from `metrics.json`."""
    stored = directory / ".hydra" / "config.yaml"
    if not stored.is_file():
        return dict(flat((metrics or {}).get("config") or {}))
    with read_as("the configuration of a run", stored):
        config = OmegaConf.create(without_environment(OmegaConf.to_container(OmegaConf.load(stored))))
        if not isinstance(config, DictConfig):
            raise TypeError("it is a list")
    for name in ELSEWHERE:
        config.pop(name, None)
    try:
        content = OmegaConf.to_container(config, resolve=True)
    except OmegaConfBaseException:  # a resolver of the run's own
        content = OmegaConf.to_container(config)
    assert isinstance(content, dict)
    return dict(flat(redact(content)))


def without_environment(node: Any) -> Any:
    """A stored configuration in which no interpolation reads the environment of whoever reports on it."""
    if isinstance(node, dict):
        return {key: without_environment(value) for key, value in node.items()}
    if isinstance(node, list):
        return [without_environment(value) for value in node]
    return node.replace("${", "\\${") if isinstance(node, str) and "oc.env" in node else node


def flat(node: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def maps_of(directory: Path, slot: str) -> dict[int, Path]:
    found = {path: re.fullmatch(rf"{slot}_step(\d+)", path.stem) for path in directory.glob(f"heatmaps/{slot}_*.npz")}
    return {int(match[1]): path for path, match in sorted(found.items()) if match}


def differences(runs: list[Run]) -> list[str]:
    """The settings in which not all runs agree; options that only some encodings have go with the name."""
    keys = {key for run in runs for key in run.settings}
    apart = {key for key in keys if len({json.dumps(run.settings.get(key), default=str) for run in runs}) > 1}
    for group in ("data", "encoding", "decoder_encoding", "cross_encoding", "optimizer", "scheduler", "model"):
        if f"{group}.name" in apart:
            shared = {key for key in apart if all(key in run.settings for run in runs)}
            apart = {key for key in apart if not key.startswith(f"{group}.") or key in shared}
    return sorted(apart, key=lambda key: (not key.endswith(".name"), key))


def labels(runs: list[Run]) -> list[str]:
    """A short name for each run, from what sets them apart; numbered where nothing does."""
    apart = differences(runs)
    if not apart:
        names = [run.name for run in runs]
    else:
        names = [
            " ".join(
                str(run.settings[key]) if key.endswith("encoding.name") else f"{key}={run.settings[key]}"
                for key in apart
                if run.settings.get(key) is not None
            )
            for run in runs
        ]
    twice = {name for name in names if names.count(name) > 1}
    return [f"{name} ({number + 1})" if name in twice else name for number, name in enumerate(names)]


def finite(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else math.nan


def load(path: Path) -> dict[str, Any]:
    """The arrays of an `.npz` file."""
    with np.load(path, allow_pickle=False) as content:
        return {name: content[name] for name in content.files}
