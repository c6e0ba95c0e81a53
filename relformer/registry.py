"""Names to classes: encodings and tasks register here, plugins join by the entry-point group ``relformer.plugins``.

A registered class takes two kinds of constructor argument. Those before ``*`` are injected by whoever builds it, by
name; those after ``*`` are its options, and their typed defaults are the schema of its config.
"""

from __future__ import annotations

import difflib
import inspect
import typing
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Literal

from relformer.errors import OptionError, UserError


@dataclass(frozen=True)
class Option:
    """One keyword-only argument of a registered class."""

    type: Any
    default: Any


@dataclass(frozen=True)
class Entry:
    """A registered class with the facts its table shows."""

    name: str
    cls: type
    facts: dict[str, str] = field(default_factory=dict)

    @property
    def constructor(self) -> Callable[..., None]:
        return self.cls.__init__  # type: ignore[misc]

    def options(self) -> dict[str, Option]:
        hints = typing.get_type_hints(self.constructor)
        parameters = inspect.signature(self.constructor).parameters.values()
        return {p.name: Option(hints[p.name], p.default) for p in parameters if p.kind is p.KEYWORD_ONLY}

    def build(self, injected: dict[str, Any], options: dict[str, Any]) -> Any:
        """Instantiate with the injected arguments the class asks for and its options.

        Raises:
            OptionError: an option the class does not have, a value outside its choices, or one its constructor refuses.
        """
        known = self.options()
        for option, value in options.items():
            if option not in known:
                raise UserError(
                    f"{self.name!r} has no option {option!r}{did_you_mean(option, known)}\n"
                    f"  options: {', '.join(known) or 'none'}"
                )
            if typing.get_origin(known[option].type) is Literal and value not in typing.get_args(known[option].type):
                raise OptionError(
                    option, value, f"is not one of {', '.join(map(str, typing.get_args(known[option].type)))}"
                )
        asked = inspect.signature(self.constructor).parameters.values()
        wanted = {p.name for p in asked if p.kind is not p.KEYWORD_ONLY}
        return self.cls(**{k: v for k, v in injected.items() if k in wanted}, **options)


class Registry:
    """Registered classes of one kind (``encoding`` or ``data``), by the name the config uses."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, Entry] = {}

    def register(self, name: str, **facts: str) -> Callable[[type], type]:
        """Class decorator. The name is the config option and the file name; the facts are columns of the printed
        table."""

        def add(cls: type) -> type:
            if name in self._entries and self._entries[name].cls.__qualname__ != cls.__qualname__:
                raise ValueError(f"two classes register {self.kind} {name!r}: {self._entries[name].cls} and {cls}")
            self._entries[name] = Entry(name, cls, facts)
            return cls

        return add

    def __getitem__(self, name: str) -> Entry:
        if name not in self._entries:
            raise UserError(
                f"no {self.kind} {name!r}{did_you_mean(name, self._entries)}\n"
                f"  {self.kind}: {', '.join(sorted(self._entries))}"
            )
        return self._entries[name]

    def __iter__(self) -> typing.Iterator[str]:
        return iter(sorted(self._entries))

    def __contains__(self, name: object) -> bool:
        return name in self._entries


encodings = Registry("encoding")
tasks = Registry("data")
register = encodings.register


def located(name: str, target: str) -> Entry:
    """An unregistered class by its import path, as a YAML's `_target_` gives it.

    Raises:
        UserError: nothing can be imported there.
    """
    module, _, attribute = target.rpartition(".")
    try:
        return Entry(name, getattr(import_module(module), attribute))
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(f"{name}: _target_={target} can't be imported ({error}); is its package installed?") from None


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """``"; did you mean 'alibi'?"`` for the nearest candidate, or nothing where none is near."""
    near = difflib.get_close_matches(name, list(candidates), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""


def load_plugins() -> list[str]:
    """Import every module of the entry-point group ``relformer.plugins``; importing registers. Returns their module
    names.

    A plugin that fails to import is reported by name and left out, so that it can't stop unrelated runs.
    """
    loaded = []
    for point in entry_points(group="relformer.plugins"):
        try:
            point.load()
        except Exception as error:  # any fault of foreign code
            warnings.warn(f"plugin {point.name!r} ({point.value}) could not be loaded: {error}", stacklevel=2)
        else:
            loaded.append(point.module)
    return loaded
