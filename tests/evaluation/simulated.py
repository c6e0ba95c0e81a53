"""Finished runs whose results are known: `metrics.json` and `examples.jsonl` as a run writes them."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from relformer.evaluation.outcomes import COLUMNS
from relformer.evaluation.report import write_examples
from relformer.evaluation.summary import summarise

LENGTHS = {"test_iid": range(1, 11), "test_longer": range(13, 21)}


def config(seed: int = 0, encoding: str = "t5", **more: Any) -> dict[str, Any]:
    data = {"name": "reverse", "seed": 0, "bos": True}
    return {"seed": seed, "encoding": {"name": encoding}, "data": data, "max_steps": 100, **more}


def drawn(name: str, share: float, each: int, seed: int) -> Tensor:
    """Outcomes of `each` sentences a length, of which about so many are right; the same sentences for every seed."""
    generator = torch.Generator().manual_seed(seed)
    lengths = [n for n in LENGTHS[name] for _ in range(each)]
    rows = torch.zeros(len(lengths), len(COLUMNS), dtype=torch.float64)
    for number, length in enumerate(lengths):
        right = bool(torch.rand((), generator=generator) < share)
        first = length + 1 if right else int(torch.randint(0, length + 1, (), generator=generator))
        values = (number, length, length, length + 1, right, right, first, first, 0.5)
        rows[number] = torch.tensor(values, dtype=torch.float64)
    return rows


def write_run(
    directory: Path,
    made: dict[str, Any],
    shares: Mapping[str, float] = {"test_iid": 1.0, "test_longer": 0.5},
    each: int = 30,
    age: int = 0,
    **more: Any,
) -> Path:
    """A run that ended `age` seconds before another; `shares` of exact matches by set."""
    rows = {name: drawn(name, share, each, made["seed"] * 1000 + n) for n, (name, share) in enumerate(shares.items())}
    run = {
        "name": directory.name,
        "config": made | {"vocabulary": None, "trained_length": 10, "length_side": "target"},
        "checkpoint": "last",
        "trained_length": 10,
        "cost": {"parameters": 1000, "position_parameters": 8, "seconds_per_step": 0.25},
        "checkpoints": {"last": {"step": 100, **{name: summarise(r) for name, r in rows.items()}}},
    } | more
    directory.mkdir(parents=True)
    write_examples(rows, directory / "examples.jsonl")
    path = directory / "metrics.json"
    path.write_text(json.dumps(run))
    os.utime(path, (1e9 - age, 1e9 - age))
    return path


def write_groups(home: Path, longer: Mapping[str, float], seeds: int = 5, **more: Any) -> Path:
    """So many seeds of each encoding, with its share of exact matches beyond the trained length."""
    for age, (encoding, share) in enumerate(longer.items()):
        for seed in range(seeds):
            shares = {"test_iid": 1.0, "test_longer": share}
            write_run(home / f"{encoding}{seed}", config(seed, encoding), shares, age=-age, **more)
    return home


def write_numbers(
    directory: Path, made: dict[str, Any], longer: float, iid: float = 1.0, age: int = 0, **more: Any
) -> Path:
    """A run of exactly these figures, without stored outcomes."""
    sets = {"test_iid": {"exact_match": iid}, "test_longer": {"exact_match": longer, "correct_prefix": longer}}
    run = {
        "config": made | {"vocabulary": None},
        "checkpoint": "last",
        "trained_length": 10,
        "cost": {"parameters": 1000, "position_parameters": 8, "seconds_per_step": 0.25},
        "checkpoints": {name: {"step": 100, **sets} for name in ("last", "best_val")},
    } | more
    directory.mkdir(parents=True)
    path = directory / "metrics.json"
    path.write_text(json.dumps(run))
    os.utime(path, (1e9 - age, 1e9 - age))
    return path


def write_texts(home: Path, bleus: Mapping[str, float]) -> Path:
    """Two seeds of each encoding with its BLEU, the second's greater by 1, and five less in the longer of two buckets;
    chrF is twice as much."""
    for encoding, bleu in bleus.items():
        for seed in range(2):
            buckets = [(2, 5, 120, bleu + seed), (6, 9, 80, bleu + seed - 5)]
            by_length = [
                {"min_length": low, "max_length": high, "n": n, **scored(score)} for low, high, n, score in buckets
            ]
            generated = {"test_iid": {**scored(bleu + seed), "by_length": by_length}}
            write_run(home / f"{encoding}{seed}", config(seed, encoding), {"test_iid": 0.1}, generated=generated)
    return home


def scored(bleu: float) -> dict[str, Any]:
    return {"bleu": {"score": bleu, "signature": "tok:13a"}, "chrf": {"score": 2 * bleu, "signature": "-"}}


def warned(text: str, about: str) -> list[str]:
    """The warnings of a printed comparison about a group, or about all."""
    return [line for line in text.splitlines() if line.startswith(f"{about}: ")]
