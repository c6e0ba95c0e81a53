"""A trained model as a folder: `model.safetensors`, `config.json`, its tokenizers, and a card that says what it is."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import save_model
from torch.nn import Module

from relformer import __version__
from relformer.errors import UserError
from relformer.export.card import model_card
from relformer.files import rename, replacing, sync, write_json, write_text
from relformer.fingerprint import sha256_of
from relformer.training.exported import SETTINGS, VERSION, WEIGHTS
from relformer.training.sealing import read_step
from relformer.training.trained import TrainedRun


def export_folder(trained: TrainedRun, to: Path) -> None:
    """Write the folder, whole or not at all; `relformer.load`, `evaluate`, `translate` and `init_from` read it.

    Raises:
        UserError: something stands there already.
    """
    with new_folder(to) as folder:
        write_parts(trained, folder, to.name)


def write_parts(trained: TrainedRun, folder: Path, name: str, usage: str = "") -> None:
    """The files of a folder that will be called `name`; `usage` goes into its card."""
    config = {**trained.module.config, **{key: trained.content[key] for key in ("decoding", "eval")}}
    states = config.pop("vocabulary")
    with replacing(folder / WEIGHTS) as temporary:
        save_weights(trained.module.model, temporary)
    settings = {
        "relformer_export": VERSION,
        "relformer": __version__,
        "step": read_step(trained.path),
        "sha256": sha256_of(folder / WEIGHTS),
        "vocabulary": dict(written_vocabularies(states, folder)),
        "config": config,
    }
    write_json(folder / SETTINGS, settings)
    shutil.copymode(folder / SETTINGS, folder / WEIGHTS)  # safetensors makes a file of the owner's alone
    write_text(folder / "README.md", model_card(trained, settings, name, usage))


def save_weights(model: Module, path: Path) -> None:
    """Raises OSError where the disk does not take them; safetensors says so in an error of its own, in words."""
    try:
        save_model(model, str(path))
    except SafetensorError as error:
        if number := re.search(r"\(os error (\d+)\)", str(error)):
            raise OSError(int(number[1]), os.strerror(int(number[1]))) from None
        raise


@contextmanager
def new_folder(to: Path) -> Iterator[Path]:
    """A temporary folder beside `to`, which has its name when all is written."""
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise UserError(f"{to} exists already; choose another folder, or delete it")
    temporary = to.with_name(f".{to.name}.{os.getpid()}.tmp")
    try:
        temporary.mkdir(parents=True)
    except OSError as error:
        raise UserError(f"{to} can't be made: {error.strerror}") from None
    try:
        yield temporary
        sync(temporary)
        rename(temporary, to)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def written_vocabularies(states: Mapping[str, Any], folder: Path) -> Iterator[tuple[str, Any]]:
    """Each side's file and what restores it; null for a target that is the source's."""
    shared = states["target"] is None
    for side, state in states.items():
        if state is None:
            yield side, None
            continue
        prefix = "" if shared else f"{side}_"
        if isinstance(state, dict):
            name = f"{prefix}tokenizer.json"
            write_text(folder / name, state["tokenizer"])
            yield side, {"file": name, "state": {key: value for key, value in state.items() if key != "tokenizer"}}
        else:
            name = f"{prefix}vocabulary.json"
            write_json(folder / name, state)
            yield side, {"file": name}
