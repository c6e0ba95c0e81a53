"""What differs between a run and its continuation: refused unless allowed, and said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig

from relformer.data.vocabulary import restored_pair
from relformer.errors import UserError
from relformer.model import build_model
from relformer.training.resume import EMA, RUN_KEYS, read_config, read_world, run_parts
from relformer.training.sealing import read_step

ALLOW = "resume_changed"
FIXED = ("optimizer._target_", "trainer.accumulate_grad_batches", "model.prefix")
"""What no continuation can change besides the weights' shapes: the optimizer's state, the count of batches and what the
rows of a table by distance stand for are of these."""
ABSENT = "not set"
BEFORE = {"model.prefix": "causal", "eval.bleu_tokenize": "13a"}
"""What runs did that are older than the option."""
Changes = dict[str, tuple[Any, Any]]
"""Dotted key -> value then, value now."""


def changes_of(path: Path, config: DictConfig) -> Changes:
    """A run's `run_parts` against those in the checkpoint that it goes on from.

    Raises:
        UserError: naming what differs, then and now, where that is not allowed or can't be; or that the checkpoint is
            further than `trainer.max_steps`.
    """
    then, done, parts = read_config(path), read_step(path), run_parts(config)
    max_steps = None if config.trainer.max_epochs else config.trainer.max_steps
    if max_steps is not None and done > max_steps:
        raise UserError(f"{path} is of step {done}, beyond trainer.max_steps={max_steps}; set it to {done} or more")
    changes = differences({key: then[key] for key in (*RUN_KEYS, "trainer", EMA) if key in then}, parts)
    if not changes:
        return changes
    told = "\n  ".join((f"{path} was written with other options:", *said(changes)))
    fixed = [key for key in changes if key in FIXED]
    if fixed or (shapes := other_weights(path, parts)):
        why = f"{', '.join(fixed)} can't change" if fixed else f"they change the model's weights ({shapes})"
        raise UserError(f"{told}\n{why}, so repeat the first command, or start a new run directory")
    if not config[ALLOW]:
        raise UserError(
            f"{told}\na resumed run must have the same ones: repeat the first command, start a new run directory, or "
            f"add {ALLOW}=true to go on with the new values"
        )
    return changes


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> Changes:
    """By dotted key; a list is one value, and a slot that was not set is absent."""
    named = {".".join(map(str, path)): path for path in (*paths(then), *paths(now))}
    pairs = {key: (value_at(then, path, BEFORE.get(key, ABSENT)), value_at(now, path)) for key, path in named.items()}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1] and not any(map(is_mapping, pair))}


def paths(node: Mapping[Any, Any], above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The keys that lead to each value; some are numbers."""
    for key, value in node.items():
        yield (*above, key)
        if is_mapping(value):
            yield from paths(value, (*above, key))


def value_at(content: Any, path: tuple[Any, ...], absent: str = ABSENT) -> Any:
    for part in path:
        content = content.get(part, ABSENT) if is_mapping(content) else ABSENT
    return absent if content == ABSENT else content


def is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def said(changes: Changes) -> Iterator[str]:
    yield from (f"{key}: {then} then, {now} now" for key, (then, now) in changes.items())


def other_weights(path: Path, parts: dict[str, Any]) -> str | None:
    """The first weight that a model of these options has otherwise than the checkpoint, if any."""
    vocabularies = restored_pair(read_config(path)["vocabulary"])
    stored = torch.load(path, map_location="cpu", weights_only=True, mmap=True)["state_dict"]
    then = {name.removeprefix("model."): tuple(value.shape) for name, value in stored.items()}
    model = build_model(parts, *map(len, vocabularies))
    now = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    other = (name for name in (*then, *now) if then.get(name) != now.get(name))
    return next((f"{name}: {then.get(name, ABSENT)} then, {now.get(name, ABSENT)} now" for name in other), None)


def said_of_start(checkpoint: Path, changes: Changes, max_steps: int, world: int, by_tokens: bool) -> Iterator[str]:
    """What a continuation says: from where, with what changed, and what another number of processes changes."""
    yield f"continuing from {checkpoint} (step {read_step(checkpoint)})"
    yield from (f"changed: {line}" for line in said(changes))
    if (then := read_config(checkpoint)["max_steps"]) != max_steps:
        yield f"trainer.max_steps was {then}: the learning-rate schedule is stretched from here on"
    if (before := read_world(checkpoint)) not in (None, world):
        what = (
            "batches are others, since data.max_tokens is for one device" if by_tokens else "the batches stay the same"
        )
        yield f"{before} processes then, {world} now: {what}; dropout and the last digits of sums differ"


def history(checkpoint: Path | None, changes: Changes, max_steps: int) -> dict[str, Any]:
    """What a continued run carries of its changes, in its checkpoints and figures: nothing where nothing changed. A run
    that was made longer had another schedule until then."""
    if checkpoint is None:
        return {}
    before = read_config(checkpoint)
    earlier = before.get("changes", [])
    if (planned := before["max_steps"]) != max_steps:
        changes = {**changes, "max_steps": (planned, max_steps)}
    now = [{"step": read_step(checkpoint), "options": {key: list(pair) for key, pair in changes.items()}}]
    return {"changes": [*earlier, *(now if changes else [])]} if earlier or changes else {}
