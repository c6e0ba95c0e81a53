"""Composing a run's configuration, and every message about what is wrong with it.

Hydra composes twice: here first, so that a wrong configuration ends in one clear sentence and leaves nothing behind.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override
from hydra.core.plugins import Plugins
from hydra.errors import HydraException, InstantiationException
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra.utils import instantiate as hydra_instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from relformer.errors import UserError
from relformer.launched import count, run_stamp
from relformer.names import path_element
from relformer.presets import conf_dir as conf_dir
from relformer.registry import did_you_mean, load_plugins
from relformer.schema import register_schemas

TYPES = {
    "Integer": "an integer",
    "Float": "a number",
    "Boolean": "true or false",
    "bool": "true or false",
    "String": "a string",
}
USERS_FAULTS = ("MisconfigurationException", "InstantiationException")
"""What Lightning and Hydra raise for options and paths that they do not know."""
SEARCH_PATH = "hydra.searchpath"
SLOTS = ("encoding", "decoder_encoding", "cross_encoding")
ABSENT = ("decoder_encoding", "experiment", "sweep")
"""Groups of which nothing need be chosen."""
SLOT = re.compile(r"^(\+*)(decoder_encoding|cross_encoding)=")


def prepare(config_dir: str | None = None) -> None:
    """Plugins, schemas, resolvers, and the folders of other people's YAML: once a process, before composing.

    Args:
        config_dir: a folder of the user's own, laid out like `conf/`.

    Raises:
        UserError: it is not a folder.
    """
    if config_dir and not Path(config_dir).is_dir():
        raise UserError(f"--config-dir {config_dir} is not a folder ({Path(config_dir).resolve()})")
    packages = sorted({module.split(".")[0] for module in load_plugins()})
    register_schemas()
    OmegaConf.register_new_resolver("path_element", path_element, replace=True)
    OmegaConf.register_new_resolver("launched", count, replace=True)
    OmegaConf.register_new_resolver("run_stamp", run_stamp, use_cache=True, replace=True)
    folders = [Path(place) / "conf" for name in packages for place in getattr(sys.modules[name], "__path__", ())]
    folders += [Path(config_dir).resolve()] if config_dir else []

    class UserConfigs(SearchPathPlugin):
        def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
            for folder in folders:
                if folder.is_dir():
                    search_path.append("relformer.plugins", f"file://{folder}")

    if folders:
        Plugins.instance().register(UserConfigs)


def slots_chosen(overrides: Sequence[str]) -> list[str]:
    """Overrides as Hydra takes them: `decoder_encoding=alibi` is a choice in a group that has another name, and a group
    of which nothing is chosen is taken out."""
    chosen = [SLOT.sub(r"\1encoding@\2=", override) for override in overrides]
    return [f"~{group}" if (group := absent(override)) else override for override in chosen]


def absent(override: str) -> str | None:
    """The group of which an override chooses nothing, where that may be."""
    group, _, value = override.partition("=")
    return group if value == "null" and group.rpartition("@")[2] in ABSENT else None


def compose(overrides: list[str]) -> DictConfig:
    """The configuration of a run with Hydra's own, without the sweeps among the overrides (a sweep's jobs check
    theirs).

    Raises:
        UserError: an unknown key or option with the nearest known one, or a value of the wrong type.
    """
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        try:
            return _compose(overrides)
        except (HydraException, OmegaConfBaseException, ValueError) as error:
            raise UserError(explain(error)) from None
        except YAMLError as error:
            raise UserError(f"a configuration file is not YAML: {' '.join(str(error).split())}") from None


def _compose(overrides: list[str]) -> DictConfig:
    parsed = read_overrides(overrides)
    for override in parsed:
        if not override.key_or_group:
            raise UserError(f"{override.input_line!r} has no key; write key=value")
    loader = GlobalHydra.instance().config_loader()
    groups = {o.key_or_group for o in parsed if "." not in o.key_or_group and loader.get_group_options(o.key_or_group)}
    elsewhere = any(o.key_or_group == SEARCH_PATH for o in parsed)
    for override in parsed:
        if override.key_or_group in groups and not elsewhere:
            check_choice(override, loader.get_group_options(override.key_or_group))
    fixed = [o for o in parsed if not o.is_sweep_override()]
    swept = [o for o in parsed if o.is_sweep_override() and o.key_or_group not in groups]
    try:
        composed = hydra_compose("train", [str(o.input_line) for o in fixed], return_hydra_config=True)
    except Exception:  # lists that are given keys make any kind
        check_keys(parsed, groups)
        raise
    if swept or any(taken_unseen(o.key_or_group) for o in fixed if o.key_or_group not in groups):
        check_keys(parsed, groups)
    return composed


def taken_unseen(key: str) -> bool:
    """Whether Hydra composes an override of a key that there is not: below a slot that is not set, or in a list."""
    first, *rest = key.split(".")
    return first in ABSENT or any(part.isdigit() for part in rest)


def check_keys(overrides: list[Override], groups: set[str]) -> None:
    """Whether the keys of overrides that choose nothing exist in the configuration that the others choose."""
    chosen = [o for o in overrides if o.key_or_group in groups or o.key_or_group == SEARCH_PATH]
    fixed = [str(o.input_line) for o in chosen if not o.is_sweep_override()]
    base = hydra_compose("train", fixed, return_hydra_config=True)
    for override in overrides:
        if override.key_or_group not in groups and not override.is_add() and not override.is_force_add():
            check_key(override, base)


def read_overrides(overrides: list[str]) -> list[Override]:
    """Hydra's reading of a command line.

    Raises:
        UserError: one of them is none.
    """
    parser, found = OverridesParser.create(), []
    for text in overrides:
        try:
            found += parser.parse_overrides([text])
        except HydraException:
            key, equals, value = text.partition("=")
            remedy = f"; put its value in quotes: {key}='...'" if equals and not value.startswith("'") else ""
            raise UserError(f"{text!r} can't be read as key=value{remedy}") from None
    return found


def check_choice(override: Override, options: list[str]) -> None:
    """Whether the options of a config group have what an override chooses."""
    group, value = override.key_or_group, override.value()
    slot = override.package or group
    if override.is_delete():
        if slot in ABSENT and (value is None or value in options):
            return
        if slot in ABSENT:
            raise UserError(f"{override.input_line!r} would leave out what is not there; write ~{slot}")
        raise UserError(f"~{slot} would leave a run without {slot}; choose one of {', '.join(options)}")
    if value is None and group == "encoding":
        raise UserError(f"{slot}=null is not an encoding; did you mean {slot}=none?")
    if value is None and slot not in ABSENT:
        raise UserError(f"{slot}=null would leave a run without {slot}; choose one of {', '.join(options)}")
    chosen = value.list if isinstance(value, ChoiceSweep) else [value]
    for name in (each for choice in chosen for each in (choice if isinstance(choice, list) else [choice])):
        if name is not None and (not isinstance(name, str) or (name not in options and "/" not in name)):
            raise UserError(f"no {group} {name!r}{did_you_mean(str(name), options)}\n  {group}: {', '.join(options)}")


def check_key(override: Override, config: DictConfig) -> None:
    """Whether the dotted key of an override exists."""
    key = override.key_or_group
    slot = key.split(".")[0]
    if slot in SLOTS and config.get(slot) is None:
        raise UserError(f"{slot} is not set; choose one first: {slot}=alibi {override.input_line}")
    keys = list(dotted_keys(OmegaConf.to_container(config, resolve=False)))
    if key in keys:
        return
    parent = key.rpartition(".")[0]
    while parent and parent not in keys:
        parent = parent.rpartition(".")[0]
    known = keys if key.startswith("hydra.") else [k for k in keys if k.split(".")[0] != "hydra"]
    known += [group for group in ABSENT if group not in known]
    siblings = [k.removeprefix(f"{parent}.") for k in known if k.rpartition(".")[0] == parent]
    home, _, leaf = key.rpartition(".")
    if parent and parent == home:  # a common parent makes no names alike
        near = [f"{home}.{name}" for name in siblings if did_you_mean(leaf, [name])]
        known = near or [k for k in known if k.rpartition(".")[2] == leaf]
    where = f"keys under {parent!r}" if parent else "keys"
    plus = (
        f"\n  other arguments of {OmegaConf.select(config, parent)['_target_']} need a plus: +{key}=..."
        if has_target(config, parent)
        else ""
    )
    raise UserError(f"no config key {key!r}{did_you_mean(key, known)}\n  {where}: {', '.join(siblings)}{plus}")


def has_target(config: DictConfig, key: str) -> bool:
    node = OmegaConf.select(config, key) if key else None
    return isinstance(node, DictConfig) and "_target_" in node


def dotted_keys(node: Any, prefix: str = "") -> Iterator[str]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield f"{prefix}{key}"
            yield from dotted_keys(value, f"{prefix}{key}.")


def explain(error: Exception) -> str:
    """Hydra's and OmegaConf's exceptions in a sentence."""
    cause = innermost(error)
    text = str(cause) if str(cause) else str(error)
    wrong = re.search(r"Value '(.*)' of type '.*' could not be converted to (\w+)", text)
    wrong = wrong or re.search(r"Value '(.*)' is not a valid (\w+)", text)
    key = re.search(r"full_key: (\S+)", text) or re.search(r"Error merging override ([^=\s]+)=", str(error))
    if wrong and key:
        return f"{key[1]}: {wrong[1]!r} is not {TYPES.get(wrong[2], f'a {wrong[2]}')}"
    if needed := re.search(r"field '(\S+)' is not Optional", text):
        return f"{needed[1]}=null: it needs a value; leave the option out for its default"
    whole = re.search(r"Invalid type assigned: .* value: (.*)", text)
    if whole and (key := re.search(r"Error merging override ([^=\s]+)=", str(error))):
        return f"{key[1]}: {whole[1]!r} is not a mapping; set the options in it one by one: {key[1]}.NAME=VALUE"
    first = str(error).splitlines()[0]
    detail = text.splitlines()[0]
    return first if detail in first else f"{first}: {detail}"


def update(config: DictConfig, overrides: list[str]) -> None:
    """Change keys of a stored configuration in place, as `evaluate` does: values only, no group choices.

    Raises:
        UserError: an unknown key, or a value of the wrong type.
    """
    try:
        for override in read_overrides(overrides):
            if override.is_sweep_override() or override.is_delete():
                raise UserError(f"{override.input_line!r}: give one value, such as {override.key_or_group}=...")
            check_key(override, config)
            OmegaConf.update(config, override.key_or_group, override.value())
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(explain(error)) from None


def plain(config: DictConfig, *keys: str) -> dict[str, Any]:
    """Parts of the configuration as plain containers, everything resolved; absent slots stay absent."""
    content = {
        key: OmegaConf.to_container(config[key], resolve=True) for key in keys if OmegaConf.is_config(config.get(key))
    }
    return content | {key: config[key] for key in keys if key in config and not OmegaConf.is_config(config[key])}


def instantiate(node: DictConfig | Mapping[str, Any], **arguments: Any) -> Any:
    """The object a node's `_target_` names, its arguments plain containers: the one door for foreign objects.

    Raises:
        UserError: it names nothing, or what it names does not take these options. Other faults inside it keep their
            traceback.
    """
    if not isinstance(node, Mapping | DictConfig) or not isinstance(node.get("_target_"), str):
        raise UserError(f"{str(node)!r:.200} is not an object's options; it needs _target_, the object's import path")
    try:
        return hydra_instantiate(node, **arguments, _convert_="all")
    except InstantiationException as error:
        cause = innermost(error)
        if isinstance(cause, UserError):
            raise cause from None
        if (
            isinstance(cause, TypeError | ValueError | LookupError | ImportError)
            or type(cause).__name__ in USERS_FAULTS
        ):
            said = " ".join(str(cause).split(", set env var")[0].split())
            raise UserError(f"{node['_target_']} does not take these options: {said}") from None
        raise


def innermost(error: BaseException) -> BaseException:
    """What a chain of exceptions began with."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error
