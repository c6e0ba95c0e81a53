"""The trained model that a run starts from: `init_from`, and what the run says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from relformer.data.vocabulary import Coder, restored_pair
from relformer.errors import UserError
from relformer.fingerprint import digits_of, sha256_of
from relformer.model import Seq2Seq, build_model
from relformer.shipped import refuse_foreign
from relformer.training.exported import exported_weights, is_exported
from relformer.training.resume import read_config
from relformer.training.sealing import read_step, refuse_damaged
from relformer.training.trained import checkpoint_of

HUB = "hf:"


@dataclass(frozen=True, eq=False)
class Origin:
    """`config` builds the model, `state` are its weights by the names of a `Seq2Seq`."""

    path: str
    config: Mapping[str, Any]
    state: Mapping[str, Tensor]
    coders: tuple[Coder, Coder]
    step: int
    sha256: str | None

    @cached_property
    def model(self) -> Seq2Seq:
        """The trained model, for encodings that read it by distance or position."""
        with torch.random.fork_rng(devices=[]):
            model = build_model(self.config, *map(len, self.coders))
        model.load_state_dict(self.state, strict=False)  # of tied tensors, an exported folder has one
        return model

    @property
    def record(self) -> dict[str, Any]:
        """What a run keeps of where it started, in its checkpoints and figures."""
        names = {slot: self.config[slot]["name"] for slot in ("encoding", "decoder_encoding") if self.config.get(slot)}
        return {"from": self.path, "step": self.step, "sha256": self.sha256, "run": self.run, **names}

    @property
    def run(self) -> str:
        """Eight digits that origins share where they differ by their seeds alone; of the hub, its name."""
        if self.path.startswith(HUB):
            return self.path
        parts = {key: part for key, part in self.config.items() if key not in ("seed", "initialised")}
        return digits_of(parts | origin_parts(self.config))


def open_origin(init_from: str) -> Origin:
    """What `init_from` names: nothing in it is run or trusted.

    Raises:
        UserError: there is no model, it is damaged, or it would import code of its own.
    """
    if init_from.startswith(HUB):
        return from_hub(init_from)
    path = checkpoint_of(Path(init_from), "last")
    refuse_damaged(path)
    config = read_config(path)
    refuse_foreign({key: value for key, value in config.items() if key != "vocabulary"})
    state = exported_weights(path) if is_exported(path) else checkpoint_weights(path)
    return Origin(str(path), config, state, restored_pair(config["vocabulary"]), read_step(path), sha256_of(path))


def checkpoint_weights(path: Path) -> dict[str, Tensor]:
    stored = torch.load(path, map_location="cpu", weights_only=True)["state_dict"]
    return {name.removeprefix("model."): tensor for name, tensor in stored.items()}


def from_hub(name: str) -> Origin:
    """Raises UserError where this relformer has no import from the hub, or what the import raises."""
    try:
        module = import_module("relformer.hf")
    except ImportError as error:
        raise UserError(f"init_from={name} needs relformer's extra hf: pip install relformer[hf] ({error})") from None
    config, state, coders = module.from_hf(name.removeprefix(HUB))
    return Origin(name, config, state, coders, 0, None)


def origin_record(init_from: str | None, start: Path | None) -> dict[str, Any]:
    """The record as it stands in a run's configuration. A continued run keeps the one it began with: its weights are
    those of its own checkpoint."""
    if start is not None:
        kept = read_config(start).get("initialised")
        return {"initialised": kept} if kept else {}
    return {} if init_from is None else {"initialised": open_origin(init_from).record}


def origin_parts(config: Mapping[str, Any]) -> dict[str, Any]:
    """The same without what differs from seed to seed, by which `compare` groups runs: two origins are one where all
    but their seeds is equal."""
    kept = config.get("initialised")
    return {"init_from": {k: v for k, v in kept.items() if k not in ("from", "sha256")}} if kept else {}
