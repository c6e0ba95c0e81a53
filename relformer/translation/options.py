"""What `relformer translate` can be told beside the options of decoding."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal, get_args

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from relformer.config import explain
from relformer.data.text.charsets import checked
from relformer.errors import OptionError, UserError
from relformer.registry import did_you_mean
from relformer.schema import options_of, schema
from relformer.training.trained import CHANGEABLE

Format = Literal["text", "tsv", "jsonl"]


@dataclass(frozen=True)
class TranslateOptions:
    """`input`, `output`: files, or - for the terminal or pipe. `format`: plain lines; or with scores and all n-best,
    as TSV (line, rank, score, text) or JSON lines. `devices` processes share the lines, `pool` at a time each; each
    translates batches of at most `max_tokens`.
    """

    input: str = "-"
    output: str = "-"
    format: Format = "text"
    charset: str = "utf-8"
    accelerator: Literal["auto", "cpu", "gpu"] = "auto"
    devices: int = 1
    pool: int = 1000
    max_tokens: int = 4096

    def __post_init__(self) -> None:
        for name, choices in (("format", get_args(Format)), ("accelerator", ("auto", "cpu", "gpu"))):
            if getattr(self, name) not in choices:
                raise OptionError(name, getattr(self, name), f"is not one of {', '.join(choices)}")
        for name in ("input", "output"):
            if not getattr(self, name):
                raise OptionError(name, "", "names no file; - is the terminal or a pipe")
        for name in ("devices", "pool", "max_tokens"):
            if getattr(self, name) < 1:
                raise OptionError(name, getattr(self, name), "must be at least 1")


def parsed(overrides: Sequence[str]) -> tuple[TranslateOptions, list[str]]:
    """The command's own options, and the overrides of the run that are left. Values are taken as they stand, since YAML
    reads - as a list and 007 as 7.

    Raises:
        UserError: a value that an option can't have, or an override that would change nothing.
    """
    names = [field.name for field in fields(TranslateOptions)]
    split = [override.partition("=") for override in overrides]
    own = {name: value for name, sign, value in split if sign and name in names}
    rest = ["".join(parts) for parts in split if not (parts[1] and parts[0] in names)]
    for override in rest:
        refuse_idle(override, names)
    try:
        typed = OmegaConf.structured(schema("translate", options_of(TranslateOptions)))
        made = TranslateOptions(**OmegaConf.merge(typed, own))  # type: ignore[arg-type]
        checked(made.charset)
    except OmegaConfBaseException as error:
        raise UserError(explain(error)) from None
    except OptionError as error:
        raise error.at("") from None
    return made, rest


def refuse_idle(override: str, names: Sequence[str]) -> None:
    """An override that evaluation reads and translation doesn't, or a misspelt option of the command."""
    if override in names:
        raise UserError(f"option {override!r} needs a value: {override}=...")
    head = re.split(r"[.=]", override.lstrip("+"))[0]
    if head in ("data", "trainer", "eval") and not override.startswith("eval.checkpoint="):
        raise UserError(f"{override!r} changes nothing in translate; its own options are {', '.join(names)}")
    changeable = any(key.partition(".")[0] == head for key in CHANGEABLE)
    if not changeable and not override.startswith("-") and (hint := did_you_mean(head, names)):
        raise UserError(f"translate has no option {override!r}{hint}")
