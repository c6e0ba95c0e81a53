"""A finished run, opened again: its checkpoint, its configuration under overrides, its model and vocabularies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf
from safetensors.torch import load_model

from relformer.config import SLOTS, update
from relformer.data.vocabulary import Coder
from relformer.decoding import DecodingOptions
from relformer.errors import OptionError, UserError
from relformer.model.attention import Attention
from relformer.presets import preset
from relformer.shipped import TRUST, refuse_foreign
from relformer.training.exported import WEIGHTS, is_exported
from relformer.training.module import Seq2SeqModule
from relformer.training.resume import read_config
from relformer.training.sealing import LAST, read_step, refuse_damaged

CHANGEABLE = ("data", "eval", "decoding", "attention", "trainer", "average", *(f"{slot}.scaling" for slot in SLOTS))
"""RoPE's scaling has no weights, and is made to be changed on a trained model."""
OF_A_SEARCH = ("beams", "n_best", "sample", "temperature", "top_k", "top_p")
"""Options of decoding that belong to greedy search, to beams or to sampling."""
KEPT = {"last": "recent", "best_val": "best"}
"""What callbacks=averaging calls the checkpoints it keeps of each kind."""


@dataclass(frozen=True)
class TrainedRun:
    """`path` is the checkpoint, `content` the configuration under the overrides, in plain containers."""

    path: Path
    directory: Path
    content: dict[str, Any]
    module: Seq2SeqModule
    averaged: int

    @property
    def coders(self) -> tuple[Coder, Coder]:
        return self.module.source_vocabulary, self.module.target_vocabulary

    @property
    def title(self) -> str:
        which = f"average of {self.averaged} checkpoints to" if self.averaged > 1 else f"{self.path.stem} checkpoint"
        place = self.directory.resolve()
        return f"{place.parent.name}/{place.name}, {which} (step {read_step(self.path)})"


def open_run(run: str, overrides: Sequence[str]) -> TrainedRun:
    """Load a checkpoint of a run under changed options: the one that `eval.checkpoint`, the run's own unless given,
    names, or the mean of the last or best `average`.

    Raises:
        UserError: no such run, a key that can't change after training, or code that nobody trusts.
    """
    trusted = TRUST in overrides
    overrides = [override for override in overrides if override != TRUST]
    wanted = [o.split("=", 1)[1].strip("\"'") for o in overrides if re.match(r"\+*eval\.checkpoint=", o)]
    which = wanted[-1] if wanted else "last"
    path = checkpoint_of(Path(run), which)
    if wanted and path == Path(run):
        raise OptionError("checkpoint", which, f"picks a checkpoint of a run, but {run} is one; leave it out", "eval")
    refuse_damaged(path)
    if not wanted and path == Path(run) / "checkpoints" / LAST and (which := reported(path)) != "last":
        path = checkpoint_of(Path(run), which)
        refuse_damaged(path)
    directory = path.parent.parent if path.parent.name == "checkpoints" else path.parent
    refuse_foreign({key: value for key, value in read_config(path).items() if key != "vocabulary"}, trusted)
    config = stored_config(path, overrides)
    content: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    slots = {slot: content[slot] for slot in SLOTS if slot in content}
    module = load_module(path, read_config(path) | slots)
    if content["average"] > 1:
        if path == Path(run):
            raise OptionError(
                "average", content["average"], f"needs a run, but {run} is one checkpoint; name its folder"
            )
        paths = kept_checkpoints(path.parent, which, content["average"])
        module.load_state_dict(mean_weights(paths))
        path = paths[-1]
    for part in module.model.modules():
        if isinstance(part, Attention):
            part.backend = content["attention"]["backend"]
    return TrainedRun(path, directory, content, module, content["average"])


def load_module(path: Path, config: dict[str, Any]) -> Seq2SeqModule:
    """The module of a checkpoint, or of an exported folder's weights."""
    if is_exported(path):
        module = Seq2SeqModule(config)
        load_model(module.model, path)
        return module
    return Seq2SeqModule.load_from_checkpoint(path, map_location="cpu", weights_only=True, config=config)


def reported(last: Path) -> str:
    """Which checkpoint a run's own figures are of (`eval.checkpoint` of its training), as its last one says."""
    return str(read_config(last).get("eval", {}).get("checkpoint", "last"))


def checkpoint_of(run: Path, which: str) -> Path:
    """The last checkpoint of a run, or the best on validation; a checkpoint's own path stands for itself, and for an
    exported folder its weights."""
    if (weights := run / WEIGHTS).is_file():
        if which != "last":
            raise OptionError(
                "checkpoint", which, f"is not in {run}, which was exported with one; leave it out", "eval"
            )
        return weights
    if run.suffix == ".ckpt" and run.is_file():
        return run
    if which not in ("last", "best_val"):
        raise OptionError("checkpoint", which, "is not one of last, best_val", "eval")
    path = run / "checkpoints" / f"{which.removesuffix('_val')}.ckpt"
    if not path.exists():
        below = sorted(p.parent.parent for p in run.glob("**/checkpoints/last.ckpt"))
        if not run.exists():
            raise UserError(f"{run.resolve()} does not exist; name a run's folder")
        hint = f"; runs in it: {', '.join(map(str, below[:5]))}" if below else ""
        raise UserError(f"{run.resolve()} is not a run: it has no checkpoints/{path.name}{hint}")
    return path


def kept_checkpoints(folder: Path, which: str, count: int) -> list[Path]:
    """The latest `count` of the checkpoints kept for averaging, or those with the lowest loss, oldest first.

    Raises:
        OptionError: there are not so many.
    """
    found = sorted(folder.glob(f"{KEPT[which]}-*.ckpt"), key=read_step if which == "last" else read_loss)
    if len(found) < count:
        rule = f"is more than the {len(found)} checkpoints in {folder} ({KEPT[which]}-*.ckpt); train with "
        raise OptionError("average", count, f"{rule}callbacks=averaging, which keeps five, one every 100 steps")
    return sorted(found[-count:] if which == "last" else found[:count], key=read_step)


def read_loss(path: Path) -> float:
    """The validation loss that ends a kept checkpoint's name.

    Raises:
        UserError: the name ends otherwise.
    """
    try:
        return float(path.stem.rpartition("-")[2])
    except ValueError:
        raise UserError(f"{path} is not named best-STEP-LOSS.ckpt, so which are best is not known") from None


def mean_weights(paths: Sequence[Path]) -> dict[str, torch.Tensor]:
    """The weights' mean over checkpoints, summed in float64; what is no number with a fraction is the last one's."""
    for path in paths:
        refuse_damaged(path)
    states = [torch.load(path, map_location="cpu", weights_only=True)["state_dict"] for path in paths]
    return {
        name: torch.stack([state[name].double() for state in states]).mean(0).to(value.dtype)
        if value.is_floating_point()
        else value
        for name, value in states[-1].items()
    }


def stored_config(path: Path, overrides: Sequence[str]) -> DictConfig:
    """The configuration a checkpoint carries, typed again, with the overrides on it."""
    content = {key: value for key, value in read_config(path).items() if key != "vocabulary"}
    config = OmegaConf.create(content | {"trainer": {"accelerator": "auto", "devices": 1}, "average": 1})
    store = ConfigStore.instance()
    schemas = {"data": "data", **dict.fromkeys(SLOTS, "encoding")}
    named = {part: f"{schemas[part]}/schema/{config[part].name}.yaml" for part in schemas if typed(config, part)}
    for part, schema in {**named, "decoding": "decoding/schema/decoding.yaml", "eval": "eval/default.yaml"}.items():
        config[part] = OmegaConf.merge(store.load(schema).node, config.get(part, {}))
    OmegaConf.set_struct(config, True)
    searches = [o for o in overrides if re.match(r"\+*decoding=", o)]
    if any(re.match(r"\+*decoding[.=]", o) for o in overrides):
        config.eval.generate = True  # who says how to search wants to see what is found, whatever the run did
    for choice in searches:
        config.decoding = OmegaConf.merge(config.decoding, search(choice.partition("=")[2].strip("\"'")))
    overrides = [o for o in overrides if o not in searches]
    for override in overrides:
        if not re.match(rf"\+*({'|'.join(CHANGEABLE)})[.=]", override):
            raise UserError(f"{override!r} can't change after training; what can is {', '.join(CHANGEABLE)}")
        key, _, value = override.lstrip("+").partition("=")
        whole = key in config or (re.fullmatch(r"\w+", value) and value != "null")
        if whole and OmegaConf.is_dict(OmegaConf.select(config, key)):
            raise UserError(f"{override!r} can't be chosen after training; set single options: {key}.KEY=VALUE")
    update(config, list(overrides))
    if type(config.average) is not int or config.average < 1:
        raise UserError(f"average={config.average} is not a number of checkpoints from 1 on")
    return config


def search(name: str) -> dict[str, Any]:
    """What `decoding=NAME` sets after training: all of `OF_A_SEARCH`. How long outputs may be, how hypotheses are
    compared and the like stays the run's."""
    usual = DecodingOptions()
    return {key: getattr(usual, key) for key in OF_A_SEARCH} | preset("decoding", name)


def typed(config: DictConfig, part: str) -> bool:
    return bool(config.get(part)) and "_target_" not in config[part]
