"""What the options of every benchmark share: how they are read, checked and explained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeVar

import torch
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from relformer.config import explain
from relformer.errors import OptionError, UserError
from relformer.registry import did_you_mean

PICTURES = (".png", ".svg", ".pdf")


@dataclass(frozen=True)
class Common:
    """What every benchmark takes: rounds that count, where to compute, and files for a CSV and a picture."""

    repeats: int = 7
    device: str = "cpu"
    out: str = ""
    plot: str = ""

    def __post_init__(self) -> None:
        self.at_least(1, "repeats")
        if self.plot and Path(self.plot).suffix not in PICTURES:
            raise OptionError("plot", self.plot, f"must end in {', '.join(PICTURES)}, which says the format")

    def at_least(self, least: int, *names: str) -> None:
        for name in names:
            if getattr(self, name) < least:
                raise OptionError(name, getattr(self, name), f"must be at least {least}")

    @property
    def clock(self) -> str:
        """How it was measured, in words."""
        kind = "CPU time of one thread" if self.device == "cpu" else "time"
        rounds = f"{self.repeats} rounds in turn" if self.repeats > 1 else "one round"
        return f"{rounds}, {kind}, medians of paired ratios (quartiles)"


Options = TypeVar("Options", bound=Common)


def parsed(kind: type[Options], arguments: Sequence[str]) -> Options:
    """Options from `name=value`.

    Raises:
        UserError: an unknown option with the nearest known one, or a value of the wrong type or outside its range.
    """
    known = [field.name for field in fields(kind)]
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        if not equals or name not in known:
            raise UserError(f"no option {argument!r}{did_you_mean(name, known)}\n  options: {', '.join(known)}")
    given = [f"{argument}''" if argument.endswith("=") else argument for argument in arguments]
    try:
        made = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(kind), OmegaConf.from_dotlist(given)))
    except OmegaConfBaseException as error:
        raise UserError(explain(error)) from None
    assert isinstance(made, kind)
    return made


def listed(text: str) -> list[str]:
    """The words of `t5,alibi`, each once."""
    return list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def choices(option: str, text: str, known: Sequence[str]) -> list[str]:
    """The words of a list, all of them known.

    Raises:
        OptionError: none, or one that is not known.
    """
    words = listed(text)
    wrong = next((word for word in words if word not in known), None)
    if wrong is not None or not words:
        near = did_you_mean(wrong or "", known)
        raise OptionError(option, text, f"must list one or more of {', '.join(known)}{near}")
    return words


def lengths_of(text: str, least: int = 2) -> list[int]:
    """The numbers of `128,512`.

    Raises:
        OptionError: something else.
    """
    words = listed(text)
    if not words or not all(word.isdecimal() and int(word) >= least for word in words):
        raise OptionError("lengths", text, f"must list whole numbers from {least} on, such as 128,512")
    return [int(word) for word in words]


def filled(batch: int, length: int, share: float) -> list[int]:
    """How many tokens each of `batch` sentences has, in even steps from `length` down, so that `share` is padding."""
    shortest = length * (1 - 2 * share)
    return [round(length - (length - shortest) * n / max(batch - 1, 1)) for n in range(batch)]


def refuse_padding(share: float, batch: int) -> None:
    """Raises OptionError where no batch has that share of padding."""
    if not 0 <= share < 0.5:
        raise OptionError("padding", share, "must lie in [0, 0.5): the share of a batch that is padding")
    if share and batch < 2:
        raise OptionError("padding", share, "needs two sentences or more in a batch, the longest being full")


def usable(name: str) -> torch.device:
    """Raises UserError where this machine has no such device."""
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"device={name} can't be used here: {str(error).splitlines()[0]}") from None
    return device


@contextmanager
def one_thread() -> Iterator[None]:
    """Measure within this: a second thread would wait for the other processes of a machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
