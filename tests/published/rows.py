"""Rows of the tables of published figures, and runs of theirs."""

import copy
import json
from pathlib import Path
from typing import Any

from relformer.published.matching import composed
from relformer.published.rows import Row
from relformer.published.tables import published_tables

TABLES = published_tables()


def row(name: str, title: str = "reversal") -> Row:
    table = next(table for table in TABLES if title in table.title)
    return next(row for row in table.rows if row.name == name)


def finished(of: Row, directory: Path, seed: int, score: float, **changes: Any) -> Path:
    """What a run of a row leaves, as far as it is read here."""
    parts = copy.deepcopy(dict(composed(of.experiment, of.overrides))) | {"seed": seed}
    for key, value in changes.items():
        group, _, option = key.rpartition("__")
        node = parts[group] if group else parts
        node.pop(option) if value is None else node.update({option: value})
    length = {"min_length": 17, "max_length": 17, "n": 200, "exact_match": score}
    inside = {"n": 200, "exact_match": 0.99, "by_length": [length | {"min_length": 16, "max_length": 16}]}
    tested = {of.set: {"n": 200, "exact_match": score, "by_length": [length]}}
    figures = {"step": parts["max_steps"], "test_iid": inside} | ({} if of.of_text else tested)
    content = {"config": parts, "checkpoint": "last", "checkpoints": {"last": figures}, "trained_length": 16}
    content |= {"generated": {of.set: {of.figure: {"score": 100 * score}}}} if of.of_text else {}
    directory.mkdir(parents=True)
    (directory / "metrics.json").write_text(json.dumps(content | {"cost": {"cpu_seconds": 90.0 + 60 * seed}}))
    return directory
