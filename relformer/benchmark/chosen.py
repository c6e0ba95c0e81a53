"""Which encodings a benchmark measures: `encodings=all|t5,alibi`, and options of one as `shaw.max_distance=8`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from relformer.benchmark.options import listed
from relformer.config import explain
from relformer.encodings import Role
from relformer.errors import OptionError, UserError
from relformer.registry import encodings, load_plugins


@dataclass(frozen=True)
class Chosen:
    """Encodings by name with their options. With `all`, those that have no place somewhere are left out and said."""

    names: list[str]
    all: bool = False
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def of(self, name: str, longest: int) -> dict[str, Any]:
        """The options of one; where it has a table of positions and nobody said how long, as long as is needed."""
        given = dict(self.options.get(name, {}))
        known = encodings[name].options()
        if "max_length" in known and "max_length" not in given and longest > known["max_length"].default:
            given["max_length"] = longest
        return given

    def refusing(self, roles: list[Role]) -> list[str]:
        """Those that have no definition in one of the roles.

        Raises:
            UserError: one of them was named.
        """
        found = []
        for name in self.names:
            reasons = encodings[name].cls.refuses  # type: ignore[attr-defined]
            refused = next((role for role in roles if role in reasons), None)
            if refused is None:
                continue
            if not self.all:
                raise UserError(f"encodings={name} has no definition as {refused}: {reasons[refused]}")
            found.append(name)
        return found


def parted(arguments: list[str]) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """Arguments apart from options of single encodings, and these by encoding.

    Raises:
        UserError: a value that is not YAML.
    """
    load_plugins()
    own = [
        argument for argument in arguments if "." in (head := argument.partition("=")[0]) and first(head) in encodings
    ]
    try:
        found: Any = OmegaConf.to_container(OmegaConf.from_dotlist(own))
    except OmegaConfBaseException as error:
        raise UserError(explain(error)) from None
    return [argument for argument in arguments if argument not in own], found


def first(name: str) -> str:
    return name.partition(".")[0]


def chosen(text: str, options: Mapping[str, Mapping[str, Any]]) -> Chosen:
    """Encodings as an option names them.

    Raises:
        UserError, OptionError: none, an unknown one, or options of one that is not measured.
    """
    names = list(encodings) if text == "all" else listed(text)
    if not names:
        raise OptionError("encodings", text, "must be all, or list encodings such as t5,alibi")
    for name in names:
        encodings[name]  # knows what is near a wrong name
    if astray := [name for name in options if name not in names]:
        raise UserError(f"{astray[0]} has options here, but encodings={text} does not measure it; add it there")
    return Chosen(names, text == "all", options)


def left_out(names: list[str], why: str) -> str:
    """A note on encodings that are not measured, or nothing."""
    return f"left out: {len(names)} {why}: {', '.join(names)}" if names else ""
