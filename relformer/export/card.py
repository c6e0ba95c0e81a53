"""The README of an exported model: what it is, what it was trained on, how well it does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from relformer.encodings import Role
from relformer.evaluation.summary import length_label
from relformer.model import DecoderOnly
from relformer.training.run import said
from relformer.training.trained import TrainedRun

NAMES = {"last": "last", "best": "best_val"}
"""What metrics.json calls the checkpoints."""
SLOTS: dict[Role, str] = {"encoder": "encoder", "decoder": "decoder", "cross": "cross-attention"}


def model_card(trained: TrainedRun, settings: Mapping[str, Any], name: str, usage: str) -> str:
    """Markdown; `settings` is the folder's config.json."""
    config = settings["config"]
    kind = "decoder-only" if isinstance(trained.module.model, DecoderOnly) else "encoder-decoder"
    lines = [
        "---",
        "library_name: relformer",
        f"tags: [positional-encoding, {kind}]",
        "---",
        "",
        f"# {name}",
        "",
    ]
    lines += [f"A Transformer ({kind}) of relformer {settings['relformer']}: {trained.title}.", ""]
    lines += ["| | |", "| --- | --- |", *(f"| {key} | {value} |" for key, value in facts(trained, settings))]
    lines += ["", "## Use", "", "```python", "import relformer", "", f'model = relformer.load("{name}")']
    lines += ['model.translate(["..."])', "```", "", *usage.splitlines()]
    if command := trained_by(trained.directory):
        lines += ["## Training", "", "```sh", command, "```", ""]
    lines += ["## Scores", "", *scores(trained)]
    extended = config.get("changes")
    lines += ["", f"Options changed on the way: `{json.dumps(extended)}`"] if extended else []
    return "\n".join(lines) + "\n"


def facts(trained: TrainedRun, settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    config, model = settings["config"], trained.module.model
    for role, slot in model.slots.items():
        node = config[slot.first.path]
        yield f"positions, {SLOTS[role]}", f"`{' '.join((node['name'], *said(node)))}`"
    yield (
        "parameters",
        f"{sum(p.numel() for p in model.parameters()):,}, of which {model.position_parameters():,} of positions",
    )
    yield "steps", f"{settings['step']:,}"
    yield "seed", f"{config['seed']} (weights, order, dropout), {config['data']['seed']} (data)"
    yield "data", f"`{config['data'].get('label') or config['data']['name']}`, fingerprint `{config['fingerprint']}`"
    yield "trained length", f"{config['trained_length']} tokens ({config['length_side']})"
    if origin := config.get("initialised"):
        yield "initialised from", f"`{origin['from']}` (step {origin['step']:,}, SHA-256 `{origin['sha256']}`)"
    yield "SHA-256 of the weights", f"`{settings['sha256']}`"


def trained_by(directory: Path) -> str | None:
    """The command line of the run."""
    path = directory / ".hydra" / "overrides.yaml"
    if not path.is_file():
        return None
    return " ".join(["relformer train", *map(str, OmegaConf.load(path))])


def scores(trained: TrainedRun) -> Iterator[str]:
    """A table a test set, by length, as the run measured this checkpoint at its end."""
    path = trained.directory / "metrics.json"
    metrics = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    found = metrics.get("checkpoints", {}).get(NAMES.get(trained.path.stem, ""))
    if trained.averaged > 1 or found is None:
        yield "These weights were not measured at the end of a run; `relformer evaluate` does it."
        return
    for name, figures in found.items():
        if not name.startswith("test_"):
            continue
        yield from ("", f"`{name}`, exact match and token accuracy by {metrics['config']['length_side']} length:", "")
        yield "| length | examples | exact match | token accuracy | loss |"
        yield "| --- | --- | --- | --- | --- |"
        for row in (*figures["by_length"], {**figures, "all": True}):
            label = "all" if "all" in row else length_label(row)
            shares = f"{row['exact_match']:.3f} | {row['token_accuracy']:.3f} | {row['loss']:.4f}"
            yield f"| {label} | {row['n']:,} | {shares} |"
