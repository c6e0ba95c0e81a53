"""Run directories as training leaves them, made without training."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from tests.training.measured import MODEL

LENGTHS = {"test_iid": range(1, 4), "test_longer": range(5, 7)}


def figures(lengths: range, exact: float) -> dict[str, Any]:
    one = {
        "n": 50,
        "exact_match": exact,
        "exact_match_low": exact - 0.05,
        "exact_match_high": exact + 0.05,
        "exact_match_oracle_eos": exact,
        "correct_prefix": exact,
        "token_accuracy": exact,
        "loss": 1 - exact,
    }
    return one | {"by_length": [one | {"min_length": n, "max_length": n} for n in lengths]}


def write_log(run: Path, steps: int) -> None:
    lines = ["step,train/loss,val/iid/exact_match,val/iid/by_length/1-2,val/iid/loss"]
    for step in range(0, steps, 10):
        lines.append(f"{step},{3 / (step + 1)},,,")
    lines.append(f"{steps},,0.5,0.25,0.7")
    (run / "csv").mkdir(parents=True)
    (run / "csv" / "metrics.csv").write_text("\n".join(lines) + "\n")


def write_maps(run: Path, steps: list[int]) -> None:
    (run / "heatmaps").mkdir()
    for step in steps:
        maps = np.full((2, 2, 4, 4), 0.01 * step, np.float32)
        maps[:, 1] *= -1
        content = {
            "r2": np.full((2, 2), 0.5),
            "profile": np.tile(np.arange(7.0), (2, 2, 1)),
            "distance": np.arange(-3, 4),
        }
        np.savez(run / "heatmaps" / f"encoder_step{step:06d}.npz", map=maps, trained=3, limit=4.0, **content)


def make_run(run: Path, encoding: str = "rope", seed: int = 0, exact: float = 1.0, finished: bool = True) -> Path:
    """A run with two moments of maps, and unless it is `finished` no metrics.json."""
    config = {
        "seed": seed,
        "name": "${data.name}-s${seed}",
        "paths": {"run_dir": "${hydra:runtime.output_dir}"},
        "trainer": {"max_steps": "${data.max_steps}"},
        "data": {"name": "reverse", "max_steps": 100},
        "encoding": {"name": encoding} | ({"num_buckets": 8} if encoding == "t5" else {}),
        "model": MODEL,
    }
    write_log(run, 100)
    (run / ".hydra").mkdir()
    (run / ".hydra" / "config.yaml").write_text(yaml.safe_dump(config))
    write_maps(run, [0, 100])
    if finished:
        last = {name: figures(lengths, exact if name == "test_iid" else exact / 2) for name, lengths in LENGTHS.items()}
        content = {
            "name": f"reverse-{encoding}-s{seed}",
            "checkpoint": "last",
            "trained_length": 3,
            "cost": {"parameters": 1234, "position_parameters": 16, "seconds_per_step": 0.01},
            "config": {"length_side": "target"},
            "checkpoints": {"last": {"step": 100, **last}},
            "generated": {"test_iid": {"n": 150, "bleu": {"score": 31.25, "signature": "tok:13a"}}},
        }
        (run / "metrics.json").write_text(json.dumps(content))
    return run
