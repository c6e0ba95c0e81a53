"""Runs of a second in the tests' own process, without figures."""

from pathlib import Path
from typing import Any

from relformer.training.run import train
from tests.config.composed import checked, without_hydra

FAST = (
    "trainer.accelerator=cpu",
    "logger=none",
    "eval.generate=false",
    "trainer.max_steps=8",
    "eval.every=8",
    "callbacks.last_checkpoint.every_n_train_steps=2",
    "callbacks.bias_heatmaps=null",
    "callbacks.bias_profiles=null",
    "callbacks.head_figures=null",
    "callbacks.receptive_field=null",
    "callbacks.attention_maps=null",
)


def run(directory: Path, *overrides: str) -> dict[str, Any]:
    """What `metrics.json` of a run holds."""
    config = checked(*FAST, f"paths.run_dir={directory}", *overrides)
    return train(without_hydra(config))
