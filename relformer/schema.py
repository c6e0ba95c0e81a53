"""Schemas for Hydra, generated from signatures: a typo or a wrong type dies at composition, in YAML as on the command
line."""

from __future__ import annotations

import types
import warnings
from collections.abc import Mapping
from copy import copy
from dataclasses import MISSING, dataclass, field, is_dataclass, make_dataclass
from dataclasses import fields as dataclass_fields
from functools import partial
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

import relformer.data.tasks
import relformer.encodings  # noqa: F401  importing both registers encodings and tasks
from relformer.attention import Backend
from relformer.data.corpus import DataOptions
from relformer.decoding import DecodingOptions
from relformer.model import ModelOptions
from relformer.registry import Option, encodings, tasks
from relformer.training.loss import LossOptions

LOGGERS = ("wandb", "csv", "tensorboard", "none")
LOGGER_MODES = ("auto", "online", "offline", "disabled")


@dataclass(frozen=True)
class AttentionOptions:
    backend: Backend = "auto"


@dataclass(frozen=True)
class EvalOptions:
    """`every`: optimizer steps between validations. `generate_batches`: of each validation set of text, decoded at each
    of them for BLEU, spread over its lengths. `generate`: decode every test set at the end. `checkpoint`: which one the
    headline figures are of. `bleu_tokenize`: what sacreBLEU does to the text before BLEU, by its names; none where it
    is tokenised already."""

    every: int = 500
    generate_batches: int = 2
    generate: bool = True
    checkpoint: Literal["last", "best_val"] = "last"
    bleu_tokenize: Literal["13a", "intl", "zh", "char", "none"] = "13a"


@dataclass(frozen=True)
class HardwareOptions:
    """`threads` of each process; null shares the machine's cores out. `compile`: the feed-forward half of each layer by
    torch.compile while training, once for all lengths; a minute's wait that a long run on a GPU repays.
    `activation_checkpointing`: layers are made twice, and only their inputs kept in between: a third more time for most
    of the activations' memory."""

    threads: int | None = None
    compile: bool = False
    activation_checkpointing: bool = False


@dataclass(frozen=True)
class ReliabilityOptions:
    """`timeout`: seconds without progress after which the run ends: a rank that stands still, or data workers that
    bring no batch. `requeue`: under SLURM, SIGUSR1 (sbatch --signal=USR1@120) has the job saved and requeued, which
    goes on in the same directory; wants resume=auto."""

    timeout: float = 600.0
    requeue: bool = False


@dataclass(frozen=True)
class SlotOptions:
    """What every encoding's slot has beside the encoding's own options; a null `share` is the published choice."""

    share: str | None = None
    layers: Any = "all"


@dataclass(frozen=True)
class SweepOptions:
    """`runs`: lines of overrides, each for a run of its own, as a list or as the path of a file. `n`: so many seeds,
    from `seed` on. `trials`: how many runs a search makes (`search_seed` is its own), by what it minimises (a loss) or
    maximises: `objective`, of the checkpoint that runs report. `tune_on_test` allows one of a test set, which every
    comparison then says. `at_once`: how many jobs run side by side. `cluster`: `slurm`, or submitit's `local`, gets the
    jobs, `submit` are submitit's own options. `learning_rates` are tried first, with `tuning_seeds`, for every encoding
    of the sweep, which is then run with the one that it does best with."""

    runs: Any = None
    n: int | None = None
    trials: int | None = None
    search_seed: int = 0
    objective: str = "val/iid/loss"
    tune_on_test: bool = False
    at_once: int = 1
    cluster: str | None = None
    submit: Any = None
    learning_rates: list[float] | None = None
    tuning_seeds: list[int] | None = None


def register_schemas() -> None:
    """Store the schema of everything registered: call after plugins are loaded, before composing."""
    store = ConfigStore.instance()
    # Hydra copies all of it whenever it composes or lists a group, half of the time of both; what it then loads from it
    # is copied once more, so that one store does.
    vars(store)["__deepcopy__"] = lambda memo: store
    for group, registry, common in (("encoding", encodings, SlotOptions), ("data", tasks, DataOptions)):
        for name in registry:
            try:
                options = {"name": Option(str, name), **options_of(common), **registry[name].options()}
                node = OmegaConf.structured(schema(name, options))
            except Exception as error:  # a plugin's class: it must not stop unrelated runs
                fault = f"{type(error).__name__}: {error}"
                warnings.warn(f"{group} {name!r} is left out, its options make no schema ({fault})", stacklevel=2)
                continue
            store.store(group=f"{group}/schema", name=name, node=node)
    plain = {"model": ModelOptions, "decoding": DecodingOptions, "sweep": SweepOptions, "hardware": HardwareOptions}
    for group, cls in plain.items():
        store.store(group=f"{group}/schema", name=group, node=schema(group, options_of(cls)))
    for group, options_class in (
        ("attention", AttentionOptions),
        ("loss", LossOptions),
        ("eval", EvalOptions),
        ("reliability", ReliabilityOptions),
    ):
        store.store(group=group, name="default", node=schema(group, options_of(options_class)))


def options_of(cls: type) -> dict[str, Option]:
    hints = get_type_hints(cls)
    return {f.name: Option(hints[f.name], f.default) for f in dataclass_fields(cls)}


def schema(name: str, options: Mapping[str, Option]) -> type:
    """A dataclass of the options in types that OmegaConf knows."""
    return make_dataclass(f"{name}_options", [(key, *stored(option)) for key, option in options.items()])


def stored(option: Option) -> tuple[Any, Any]:
    """The type of an option in a schema, and its default as a field."""
    kind, default = storable(option.type), option.default
    if is_dataclass(option.type):
        return kind, field(default_factory=partial(kind, **vars(default)))
    if default is MISSING or not isinstance(default, (list, dict)):
        return kind, field(default=default)
    return kind, field(default_factory=lambda: copy(default))


def storable(kind: Any) -> Any:
    """A Literal is stored as the type of its choices; the choice itself is checked when the object is built."""
    if get_origin(kind) is Literal:
        return type(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return storable(next(arg for arg in get_args(kind) if arg is not types.NoneType)) | None
    return schema(kind.__name__, options_of(kind)) if isinstance(kind, type) and is_dataclass(kind) else kind


def wrong_choice(options: Mapping[str, Any], cls: type) -> tuple[str, Any, str] | None:
    """The first option of a dataclass whose value is not among its choices: (name, value, choices)."""
    for name, option in options_of(cls).items():
        if get_origin(option.type) is Literal and name in options and options[name] not in get_args(option.type):
            return name, options[name], ", ".join(get_args(option.type))
    return None
