"""Reading a folder that `relformer export` wrote, as a run's checkpoint is read: by the path of its weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from relformer.errors import UserError
from relformer.fingerprint import sha256_of

WEIGHTS, SETTINGS = "model.safetensors", "config.json"
VERSION = 1
"""Of the folder's layout."""


def is_exported(path: Path) -> bool:
    """Whether a path is the weights of such a folder."""
    return path.name == WEIGHTS


def settings_of(weights: Path) -> dict[str, Any]:
    """What stands in the folder's `config.json`.

    Raises:
        UserError: it is missing, not JSON, or of another version.
    """
    path = weights.with_name(SETTINGS)
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        version = content["relformer_export"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is not what relformer export wrote ({type(error).__name__}); export again") from None
    if version != VERSION:
        raise UserError(f"{path} has layout {version}, and this relformer reads {VERSION}; export again, or update")
    return content


def exported_config(weights: Path) -> dict[str, Any]:
    """The configuration as a checkpoint has it, with the vocabularies from their files."""
    settings = settings_of(weights)
    states = {side: state_of(weights, entry) for side, entry in settings["vocabulary"].items()}
    config: dict[str, Any] = {**settings["config"], "vocabulary": states}
    return config


def state_of(weights: Path, entry: Any) -> Any:
    """One side's state: what its entry says, its file read in."""
    if entry is None:
        return None
    try:
        text = weights.with_name(entry["file"]).read_text(encoding="utf-8")
        return {**entry["state"], "tokenizer": text} if "state" in entry else json.loads(text)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{weights.parent}: the vocabulary {entry} can't be read ({error}); export again") from None


def exported_damage(weights: Path) -> str | None:
    """What is wrong with the weights' bytes, if anything."""
    return None if sha256_of(weights) == settings_of(weights)["sha256"] else "its SHA-256 is not the one in config.json"


def exported_weights(weights: Path) -> dict[str, Tensor]:
    """The tensors by the names that a `Seq2Seq` has for them; of tied ones, one.

    Raises:
        UserError: the file is not of safetensors.
    """
    try:
        found: dict[str, Tensor] = load_file(weights)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{weights} can't be read ({error}); export again") from None
    return found
