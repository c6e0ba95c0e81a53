"""Rows of the tables of published figures, and runs of theirs."""

import copy
import json
from pathlib import Path
from typing import Any

from relformer.config import prepare
from relformer.published.matching import composed
from relformer.published.rows import Row
from relformer.published.tables import published_tables

prepare()
TABLES = published_tables()


def row(name: str, title: str = "reversal") -> Row:
    table = next(table for table in TABLES if title in table.title)
    return next(row for row in table.rows if row.name == name)


def finished(
    of: Row, directory: Path, seed: int, score: float, iid: float = 0.99, padded: bool = False, **changes: Any
) -> Path:
    """What a run of a row leaves, as far as it is read here; `padded` where all targets have one length."""
    parts = copy.deepcopy(dict(composed(of.experiment, of.overrides))) | {"seed": seed}
    for key, value in changes.items():
        group, _, option = key.rpartition("__")
        node = parts[group] if group else parts
        node.pop(option) if value is None else node.update({option: value})
    tested = {"n": 200, "exact_match": score, "correct_prefix": (1 + score) / 2} if of.set != "test_iid" else {}
    sets = {"test_iid": {"n": 200, "exact_match": iid}, of.set: tested or {"n": 200, "exact_match": iid}}
    for name, figures in sets.items():
        length = 12 if padded else 17 if name == of.set else 16
        figures["by_length"] = [{"min_length": length, "max_length": length, **figures}]
    content = {
        "config": parts,
        "checkpoint": "last",
        "checkpoints": {"last": {"step": parts["max_steps"], **sets}},
        "trained_length": 16,
        "cost": {"cpu_seconds": 90.0 + 60 * seed},
    }
    if of.of_text:
        scored = {of.figure: {"score": 100 * score, "signature": "tok:none"}}
        by_length = [{"min_length": n, "max_length": n + 4, "n": 150, **scored} for n in (5, 10)]
        content["generated"] = {of.set: {**scored, "by_length": by_length}}
    directory.mkdir(parents=True)
    (directory / "metrics.json").write_text(json.dumps(content))
    return directory
