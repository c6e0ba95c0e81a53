"""What `relformer translate` can be told beside the options of decoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from relformer.errors import OptionError

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
        for name in ("devices", "pool", "max_tokens"):
            if getattr(self, name) < 1:
                raise OptionError(name, getattr(self, name), "must be at least 1")
