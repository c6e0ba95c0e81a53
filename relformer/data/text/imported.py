"""A tokenizer from elsewhere, whose vocabulary has control tokens of its own among the others.

Padding, the start of a target and the end of a sequence take our ids 0, 1 and 2; the others follow in their order. Two
of the three may be one token there: a target starts with padding (T5, Marian) or with the end (BART). Then one of our
control ids is a second one of that token, `Controls.extra`: a model gives it the same row and bars it from its output.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, cast

from relformer.data.text.tokenizer import Tokenizer
from relformer.data.vocabulary import BOS, PAD, SPECIAL
from relformer.errors import UserError


@dataclass(frozen=True)
class Controls:
    """How many ids a foreign vocabulary has, and which of them control.

    Raises:
        UserError: they are not of the vocabulary, or the end of a sequence can't be told from padding.
    """

    size: int
    pad: int
    start: int
    eos: int

    def __post_init__(self) -> None:
        if self.pad == self.eos:
            raise UserError(f"padding and the end of a sequence are one token, {self.pad}; relformer needs two")
        for name in ("pad", "start", "eos"):
            if getattr(self, name) not in range(self.size):
                raise UserError(f"the {name} token has id {getattr(self, name)}, outside a vocabulary of {self.size}")

    @property
    def extra(self) -> int | None:
        """Of the two ids of one token, the one that a model never reads, or never writes."""
        return PAD if self.start == self.pad else BOS if self.start == self.eos else None

    @cached_property
    def rows(self) -> list[int]:
        """The foreign id behind each of ours."""
        first = [self.pad, self.start, self.eos]
        return first + [number for number in range(self.size) if number not in first]

    @cached_property
    def ours(self) -> list[int]:
        """Our id of each foreign one."""
        found = [0] * self.size
        for number, row in enumerate(self.rows):
            if number != self.extra:
                found[row] = number
        return found


class ImportedTokenizer:
    """Reads and writes text as its library does, in our ids.

    Args:
        text: the library's tokenizer.
        prefix: foreign ids before every text (BART's `<s>`).
        names: tokens by foreign id where the library numbers its own otherwise (Marian has a model for each side and
            one vocabulary for both); what is not among them is unknown.

    Raises:
        UserError: the library's vocabulary is not that of the model.
    """

    sentences = True

    def __init__(
        self, text: Tokenizer, controls: Controls, prefix: Sequence[int] = (), names: Sequence[str] | None = None
    ) -> None:
        self.text, self.controls, self.prefix, self.names = text, controls, list(prefix), names
        own = text.tokens[len(SPECIAL) :]
        called = list(own if names is None else names)
        if names is not None and (text.unknown is None or own[text.unknown - len(SPECIAL)] not in called):
            raise UserError("the vocabulary has no token for what is unknown to its sentencepiece model")
        if len(called) > controls.size:
            raise UserError(f"a tokenizer of {len(called)} tokens does not go with a model of {controls.size}")
        self.called = [*called, *(f"<unused_{number}>" for number in range(len(called), controls.size))]
        self.tokens = (*SPECIAL, *(self.called[row] for row in controls.rows[len(SPECIAL) :]))
        self.ids = None if names is None else dict(zip(names, controls.ours, strict=False))
        unknown = None if text.unknown is None else self.called.index(own[text.unknown - len(SPECIAL)])
        self.unknown = None if unknown is None else controls.ours[unknown]
        self.before = [controls.ours[number] for number in prefix]
        self.joiner: tuple[int, ...] = () if prefix or names else tuple(self.ours(text.joiner))

    def __reduce__(self) -> tuple[Any, ...]:
        return restored_import, (self.state(),)

    def __len__(self) -> int:
        return len(self.tokens)

    def ours(self, ids: Iterable[int]) -> list[int]:
        """Our ids of the library's plus `Tokenizer`'s shift."""
        return [self.controls.ours[number - len(SPECIAL)] for number in ids]

    def encode(self, text: str) -> list[int]:
        """Raises UserError where the text is not Unicode, or spells a control token."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Raises UserError as `encode`."""
        if self.ids is None:
            bare = [self.ours(ids) for ids in self.text.encode_batch(texts)]
        else:
            known, unknown = self.ids, cast(int, self.unknown)
            bare = [[known.get(piece, unknown) for piece in pieces] for pieces in self.text.pieces_batch(texts)]
        found = [self.before + ids for ids in bare]
        for text, ids in zip(texts, found, strict=True):
            spelt = [number for number in ids[len(self.before) :] if number < len(SPECIAL)]
            if spelt:
                token = self.called[self.controls.rows[spelt[0]]]
                raise UserError(f"the text {text[:60]!r} spells {token!r}, which is a control token; take it out")
        return found

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`, without control tokens and the prefix."""
        rows = [self.controls.rows[number] for number in ids if number >= len(SPECIAL) and number not in self.before]
        return self.text.spelt([self.called[row] for row in rows])

    def state(self) -> dict[str, Any]:
        """What restores it, for checkpoints."""
        imported = {**asdict(self.controls), "prefix": self.prefix, "names": self.names}
        return {**self.text.state(), "imported": imported}


def restored_import(state: dict[str, Any]) -> ImportedTokenizer:
    """Of `ImportedTokenizer.state`."""
    imported = dict(state["imported"])
    prefix, names = imported.pop("prefix"), imported.pop("names")
    return ImportedTokenizer(Tokenizer(state["tokenizer"], specials=True), Controls(**imported), prefix, names)
