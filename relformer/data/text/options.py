"""What every source of text can be told. Not postponed annotations: the registry reads them from subclasses too."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from relformer.data.task import Source
from relformer.data.text.tokenizer import TokenizerOptions
from relformer.errors import OptionError


@dataclass(kw_only=True)
class TextSource(Source):
    """Options of text, whatever it comes from.

    Options:
        label: what runs on these data are called.
        tokenizer: how text becomes tokens; trained on the training text at first use.
        on_bad: what a line that breaks a rule does: stop with its place, or be left out and counted (skip).
        max_length: most tokens of a side, BOS and EOS not counted.
        on_too_long: what a longer one does: stop (error), be left out (drop) or be cut off (truncate).
        most_dropped: share of a set that may be left out, for whatever reason, before it stops.
        limit: use only so many training pairs, the first.
        held_out: pairs of the training text for validation and again for testing, where no files are given for them.
        join: make `val_longer` and `test_longer` of the i.i.d. pairs, so many in a row joined to one.
    """

    instead: ClassVar[str] = "give data.val and data.test"
    """What to do where nothing can be held out."""

    seed: int = field(default=0, kw_only=False)
    label: str = "text"
    tokenizer: TokenizerOptions = TokenizerOptions()
    on_bad: Literal["stop", "skip"] = "stop"
    max_length: int | None = None
    on_too_long: Literal["error", "drop", "truncate"] = "error"
    most_dropped: float = 0.1
    limit: int | None = None
    held_out: int = 1000
    join: int | None = None

    def __post_init__(self) -> None:
        for name, low in (("max_length", 1), ("limit", 1), ("held_out", 1), ("join", 2)):
            value = getattr(self, name)
            if value is not None and value < low:
                raise OptionError(name, value, f"must be at least {low}")
        if not 0 <= self.most_dropped <= 1:
            raise OptionError("most_dropped", self.most_dropped, "must lie in [0, 1]: it is a share of the pairs")
