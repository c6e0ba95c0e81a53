"""Tokens to ids and back. Ids 0, 1, 2 are padding, begin and end of sequence in every vocabulary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from relformer.errors import UserError

PAD, BOS, EOS = 0, 1, 2
SPECIAL = ("<pad>", "<bos>", "<eos>")


class Coder(Protocol):
    """What encodes one side of a corpus: a `Vocabulary` of whole tokens, or a trained `Tokenizer` of text.

    `tokens` lists the strings by id, `unknown` is the id of what the vocabulary lacks (None where nothing can be
    lacking). `encode` reads a line of text, `decode` writes one; control ids are skipped.
    """

    @property
    def tokens(self) -> tuple[str, ...]: ...

    @property
    def unknown(self) -> int | None: ...

    @property
    def sentences(self) -> bool:
        """Whether it writes natural language, for which BLEU and the like mean something."""
        ...

    def __len__(self) -> int: ...

    def encode(self, text: str) -> list[int]: ...

    def decode(self, ids: Iterable[int]) -> str: ...

    def state(self) -> list[str] | dict[str, Any]:
        """What restores it, for checkpoints."""
        ...


class Vocabulary:
    """An ordered list of token strings behind the special ones. In text, tokens stand apart by spaces."""

    unknown = None
    sentences = False
    joiner: tuple[int, ...] = ()

    def __init__(self, tokens: Iterable[str]) -> None:
        self.tokens = (*SPECIAL, *tokens)
        self.ids = {token: number for number, token in enumerate(self.tokens)}
        if len(self.ids) < len(self.tokens):
            twice = next(t for t in self.tokens if self.tokens.count(t) > 1)
            raise UserError(f"the vocabulary lists {twice!r} twice; every token needs one id")

    def __len__(self) -> int:
        return len(self.tokens)

    def ids_of(self, tokens: Sequence[str]) -> list[int]:
        """Raises UserError where a token is not in the vocabulary."""
        try:
            return [self.ids[token] for token in tokens]
        except KeyError as unknown:
            raise UserError(f"token {unknown} is not in the vocabulary of {len(self)} tokens") from None

    def encode(self, text: str) -> list[int]:
        """Raises UserError where a token is not in the vocabulary."""
        return self.ids_of(text.split())

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Raises UserError as `encode`."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        return " ".join(self.tokens[number] for number in ids if number >= len(SPECIAL))

    def state(self) -> list[str]:
        return list(self.tokens[len(SPECIAL) :])


def stored_pair(source: Coder, target: Coder) -> dict[str, Any]:
    """Both sides' states, for checkpoints; a shared one once."""
    return {"source": source.state(), "target": None if target is source else target.state()}


def restored_pair(states: Mapping[str, Any]) -> tuple[Coder, Coder]:
    """The vocabularies or tokenizers that a checkpoint holds; one object where they are shared."""
    source = restored(states["source"])
    return source, source if states["target"] is None else restored(states["target"])


def restored(state: list[str] | dict[str, Any]) -> Coder:
    if isinstance(state, dict):
        from relformer.data.text.corrupted import SentinelTokenizer
        from relformer.data.text.imported import restored_import
        from relformer.data.text.tokenizer import Tokenizer

        if "imported" in state:
            return restored_import(state)
        text = Tokenizer(state["tokenizer"])
        return SentinelTokenizer(text, state["sentinels"]) if "sentinels" in state else text
    return Vocabulary(state)
