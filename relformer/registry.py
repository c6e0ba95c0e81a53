"""Names to classes: encodings and tasks register here, plugins join by the entry-point group ``relformer.plugins``.

A registered class takes two kinds of constructor argument. Those before ``*`` are injected by whoever builds it, by
name; those after ``*`` are its options, and their typed defaults are the schema of its config.
"""

from __future__ import annotations

import difflib
import inspect
import types
import typing
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, is_dataclass
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
        known = {name: option.type for name, option in self.options().items()}
        made = self.typed(options, known)
        asked = inspect.signature(self.constructor).parameters.values()
        wanted = {p.name for p in asked if p.kind is not p.KEYWORD_ONLY}
        return self.cls(**{k: v for k, v in injected.items() if k in wanted}, **made)

    def typed(self, options: Mapping[str, Any], known: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
        """Options as the constructor takes them: a mapping becomes the dataclass that its option is declared as."""
        made: dict[str, Any] = {}
        for name, value in options.items():
            option = f"{prefix}{name}"
            if name not in known:
                names = [f"{prefix}{other}" for other in known]
                rule = f"is not an option of {self.name}{did_you_mean(option, names)}"
                raise OptionError(option, value, f"{rule}\n  options: {', '.join(names) or 'none'}")
            kind = known[name]
            if isinstance(kind, type) and is_dataclass(kind) and not isinstance(value, kind):
                fields = typing.get_type_hints(kind)
                if not isinstance(value, Mapping):
                    raise OptionError(option, value, f"must be a mapping of options: {', '.join(fields)}")
                made_of = self.typed(value, fields, f"{option}.")
                try:
                    value = kind(**made_of)
                except OptionError as error:
                    raise OptionError(f"{option}.{error.option}", error.value, error.rule) from None
            elif typing.get_origin(kind) is Literal and value not in typing.get_args(kind):
                raise OptionError(option, value, f"is not one of {', '.join(map(str, typing.get_args(kind)))}")
            elif typing.get_origin(kind) is not Literal and not fits(value, kind):
                raise OptionError(option, value, f"is not {described(kind)}")
            made[name] = value
        return made


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

    def forget(self, name: str) -> None:
        """Take a name out again."""
        del self._entries[name]

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


def fits(value: Any, kind: Any) -> bool:
    """Whether a value is of an option's type; an integer is a number too, true and false are not."""
    if kind is Any:
        return True
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return any(fits(value, arm) for arm in typing.get_args(kind))
    kind = typing.get_origin(kind) or kind
    if kind in (int, float) and isinstance(value, bool):
        return False
    return isinstance(value, (int, float) if kind is float else kind)


def described(kind: Any) -> str:
    """An option's type in words."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return " or ".join(described(arm) for arm in typing.get_args(kind))
    words = {int: "an integer", float: "a number", bool: "true or false", str: "a string", list: "a list"}
    return "null" if kind is types.NoneType else words.get(typing.get_origin(kind) or kind, str(kind))


def located(name: str, target: str) -> Entry:
    """An unregistered class by its import path, as a YAML's `_target_` gives it.

    Raises:
        UserError: nothing can be imported there.
    """
    module, _, attribute = target.rpartition(".")
    try:
        home = import_module(module)
        if not hasattr(home, attribute):
            classes = [key for key, value in vars(home).items() if isinstance(value, type)]
            raise UserError(f"{name}: {module} has no {attribute!r}{did_you_mean(attribute, classes)}")
        found = getattr(home, attribute)
        if not hasattr(found, "overrides"):
            raise UserError(f"{name}: _target_={target} is not a subclass of relformer.encodings.PositionalEncoding")
        return Entry(name, found)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(
            f"{name}: _target_={target} can't be imported ({error}); is its package installed, or in PYTHONPATH?"
        ) from None


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
