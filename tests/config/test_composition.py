"""Every file in conf/ composes and says what it selects; names agree with the registry; the command line wins."""

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import DictConfig, OmegaConf

from relformer.config import SLOTS, conf_dir, plain
from relformer.model import build_model
from relformer.registry import encodings, tasks
from relformer.training.run import train
from tests.config.composed import GIVEN, SMALL, checked, composed, groups, names, variants, without_hydra

SHIPPED = [(group, name) for group in groups() for name in names(group)]
TOO_LARGE = {("model", "base"), ("model", "big")}
"""Composed only: building them takes too long for a test."""
GPUS = ("gpu", "ddp", "fsdp", "mps", "slurm")
ELSEWHERE = {("data", name) for name in GIVEN - {"scan", "denoising"}}
ELSEWHERE |= {("experiment", name) for name in names("experiment")} | {("hardware", name) for name in GPUS}
"""Composed only: what they name is the user's own, on the hub, a device that is not here, or large."""
TRAINED = ("ontanon2022_reverse", "scan_simple", "claims_alibi")
"""Of those without a family below; all are trained by `pytest -m slow`."""
SOMETIMES = {name: pytest.mark.slow for name in names("experiment") if name not in TRAINED}
EXPERIMENTS = [
    *(
        pytest.param((name,), id=name, marks=() if name in TRAINED else pytest.mark.slow)
        for name in names("experiment")
    ),
    pytest.param(
        ("csordas2021_scan_length", "experiment/csordas2021=small", "model.share_layers=true"), id="universal"
    ),
    pytest.param(("kazemnejad2023_copy", "model=decoder_only", "model.tie=all"), id="decoder_only"),
    *(pytest.param((f, f"experiment/{g}={n}"), id=f"{g}={n}", marks=pytest.mark.slow) for f, g, n in variants()),
]
SMALLER = {
    "scan": ("data.cutoff=40", "data.test_share=0.005", "data.val_iid=20"),
    "text_files": ("data.tokenizer.size=300",),
}
"""Overrides that make little of an experiment's data; of generated ones by their number."""


def values(node: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The dotted keys of a file with what it sets them to, but for references to other keys."""
    for key, value in node.items():
        if isinstance(value, Mapping):
            yield from values(value, f"{prefix}{key}.")
        elif key != "defaults" and not (isinstance(value, str) and "${" in value):
            yield f"{prefix}{key}", value


def placed(group: str, name: str) -> tuple[str, list[str]]:
    """Where a file's keys stand, and the overrides that choose it: encodings in a slot and a model that take them."""
    if group != "encoding":
        return group, [f"{group}={name}"]
    cls: Any = encodings[name].cls
    biases = [f"model.attention_bias={b}" for b in cls.needs_attention_bias[:1]]
    if "encoder" in cls.refuses:
        return "decoder_encoding", ["encoding=none", f"decoder_encoding={name}", *biases]
    return group, [f"encoding={name}", *(["decoder_encoding=none"] if "decoder" in cls.refuses else []), *biases]


@pytest.mark.parametrize(("group", "name"), SHIPPED)
def test_every_option_composes_to_what_its_file_says(group: str, name: str) -> None:
    path = conf_dir() / group / f"{name}.yaml"
    slot, overrides = placed(group, name)
    config = (composed if (group, name) in TOO_LARGE | ELSEWHERE else checked)(*overrides)
    prefix = "" if "@package _global_" in path.read_text() else f"{slot}."
    file: Any = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
    for key, value in values(file, prefix):
        if not key.startswith("hydra."):
            assert OmegaConf.select(config, key) == value, key


@pytest.mark.parametrize(("parent", "group", "name"), variants())
def test_every_variant_composes_to_what_its_file_says(parent: str, group: str, name: str) -> None:
    config = composed(f"experiment={parent}", f"experiment/{group}={name}")
    file: Any = OmegaConf.to_container(
        OmegaConf.load(conf_dir() / "experiment" / group / f"{name}.yaml"), resolve=False
    )
    for key, value in values(file):
        assert OmegaConf.select(config, key) == value, key


def test_every_folder_beside_the_experiments_is_chosen_from_or_part_of_one() -> None:
    folders = {path.name for path in (conf_dir() / "experiment").iterdir() if path.is_dir()}
    assert folders == {group for _, group, _ in variants()} | {"setup"}


def test_every_file_begins_with_a_line_that_says_what_it_selects() -> None:
    for path in conf_dir().rglob("*.yaml"):
        lines = [line for line in path.read_text().splitlines() if not line.startswith("# @package")]
        assert lines[0].startswith("# ") and len(lines[0]) > 10, path


def test_files_and_registry_have_the_same_names() -> None:
    shipped = [name for name in encodings if encodings[name].cls.__module__.startswith("relformer.")]
    assert names("encoding") == shipped
    for name in names("encoding"):
        assert OmegaConf.load(conf_dir() / "encoding" / f"{name}.yaml").name == name
    named: dict[str, list[str]] = {}
    for name in names("data"):
        named.setdefault(composed(f"data={name}").data.name, []).append(name)
    assert sorted(named) == list(tasks)
    assert all(name in presets for name, presets in named.items())


@pytest.mark.parametrize("chosen", EXPERIMENTS)
def test_every_experiment_trains(chosen: tuple[str, ...], tmp_path: Path) -> None:
    overrides = (f"experiment={chosen[0]}", *chosen[1:])
    data = composed(*overrides).data
    own = [*SMALLER.get(data.name, SMALL[1:])]
    if data.name == "text_files":
        for files in (data.train, data.val, data.test, *data.tests.values()):
            for side in ("source", "target"):
                (tmp_path / files[side]).write_text("".join(f"{files[side]} {n}\n" for n in range(40)))
        own.append(f"data.path={tmp_path}")
    config = checked(
        *overrides,
        *own,
        "trainer.max_steps=2",
        "trainer.accelerator=cpu",
        "logger=csv",
        f"paths.run_dir={tmp_path}",
    )
    metrics = train(without_hydra(config))
    assert metrics["checkpoints"]["last"]["step"] == 2
    assert metrics["config"]["encoding"] == plain(config, "encoding")["encoding"]


@pytest.mark.parametrize("hardware", names("hardware"))
def test_devices_on_the_command_line_beat_hardware(hardware: str) -> None:
    for overrides in itertools.permutations((f"hardware={hardware}", "trainer.devices=4")):
        assert composed(*overrides).trainer.devices == 4
    assert composed("trainer.precision=64-true", f"hardware={hardware}").trainer.precision == "64-true"


def test_an_option_on_the_command_line_beats_the_file_of_its_group() -> None:
    assert composed("model.dropout=0.25", "model=small").model.dropout == 0.25
    assert composed("model=small").model.dropout == 0.1
    assert composed("encoding.scale=0.5", "experiment=t5_original").encoding.scale == 0.5


def slot_names(config: DictConfig) -> list[str | None]:
    return [config[slot].name if config.get(slot) else None for slot in SLOTS]


def test_slots_take_encodings_as_the_first_does() -> None:
    config = composed("encoding=alibi", "cross_encoding=rope", "cross_encoding.fraction=.5", "decoder_encoding=shaw")
    assert slot_names(config) == ["alibi", "shaw", "rope"]
    assert config.cross_encoding.fraction == 0.5
    model = build_model(plain(config, "seed", "model", "attention", *SLOTS), 10, 10)
    found = {role: type(slot.first).__name__ for role, slot in model.slots.items()}
    assert found == {"encoder": "ALiBi", "decoder": "Shaw", "cross": "RoPE"}


def test_a_slot_that_is_not_set() -> None:
    config = composed("encoding=alibi", "encoding.max_bias=3")
    assert slot_names(config) == ["alibi", None, "none"]
    model = build_model(plain(config, "seed", "model", "attention", *SLOTS), 10, 10)
    distance = torch.arange(-3, 4)
    tables = [model.slots[role].first.table(distance) for role in ("encoder", "decoder")]
    assert torch.equal(*tables) and tables[0].any()
    assert model.slots["cross"].first.table(distance) is None


def test_lengths_of_nested_options_keep_the_ends_not_given() -> None:
    assert composed("data.test.max_length=15").data.test == {"min_length": 13, "max_length": 15}


def test_the_steps_of_a_task_are_the_trainers_until_it_has_its_own() -> None:
    assert composed("data.max_steps=7").trainer.max_steps == 7
    assert composed("data.max_steps=7", "trainer.max_steps=9").trainer.max_steps == 9
