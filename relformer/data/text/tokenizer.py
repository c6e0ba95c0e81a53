"""Text to ids and back, through the `tokenizers` library.

Our id is the library's plus 3: padding, begin and end of sequence are not in its vocabulary at all, so no text can
produce them, whatever it spells. The library's JSON is all there is to a tokenizer; it travels in checkpoints, and its
normal form with it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import tokenizers

from relformer.data.text.tokenizer_training import TokenizerOptions, train_library_tokenizer
from relformer.data.vocabulary import SPECIAL
from relformer.errors import UserError

__all__ = ["Tokenizer", "TokenizerOptions", "train_tokenizer"]

_SHIFT = len(SPECIAL)
# A forked process has none of its parent's threads and would wait for them for ever. Left unset, the variable makes the
# library guess and print a warning at every fork, such as those of data workers, which never tokenize.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
os.register_at_fork(after_in_child=lambda: os.environ.update(TOKENIZERS_PARALLELISM="false"))


class Tokenizer:
    """What a `Vocabulary` is for text.

    Attributes:
        tokens: names by id, for display: a library's vocabulary may hold the name of a control token once more.
        json: restores the tokenizer: `Tokenizer(json)`.
        unknown: the id of what has no token, None where every text has.
        joiner: ids to put between two encoded sentences so that they decode with a space between them.
    """

    sentences = True

    def __init__(self, content: str, name: str = "the tokenizer", specials: bool = False) -> None:
        """`name` is for messages; `specials`: whether text can spell the library's special tokens, as it can elsewhere.

        Raises:
            UserError: the content is not a tokenizer's JSON, or breaks a rule of `_check`.
        """
        try:
            model = json.loads(content)["model"]
            self._library = tokenizers.Tokenizer.from_str(content)
        except json.JSONDecodeError as error:
            raise UserError(f"{name} is not JSON ({error}); it must be a tokenizer.json") from None
        except Exception as error:  # the library raises nothing more precise
            raise UserError(f"{name} is not a tokenizer.json of the tokenizers library ({error})") from None
        self._library.encode_special_tokens = not specials
        self._library.no_truncation()
        self._library.no_padding()
        ids = self._library.get_vocab(with_added_tokens=True)
        self.tokens = (*SPECIAL, *sorted(ids, key=ids.__getitem__))
        unknown = _unknown(model, ids)
        self._check(name, model, sorted(ids.values()), unknown)
        self.json = self._library.to_str()
        self.unknown = None if unknown is None else unknown + _SHIFT
        self.joiner = self._find_joiner()

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """Raises UserError, naming the file, where it is missing or not a usable `tokenizer.json`."""
        try:
            content = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise UserError(f"cannot read the tokenizer {Path(path).absolute()}: {reason}") from None
        return cls(content, f"the tokenizer {path}")

    def __len__(self) -> int:
        return len(self.tokens)

    def __reduce__(self) -> tuple[type[Tokenizer], tuple[str]]:
        # Pickling the library's object would lose encode_special_tokens.
        return Tokenizer, (self.json,)

    def encode(self, text: str) -> list[int]:
        """Raises UserError where the text is not Unicode: it holds half a surrogate pair."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Many texts at once, on all cores unless TOKENIZERS_PARALLELISM=false.

        Raises:
            UserError: as `encode`.
        """
        return [
            [number + _SHIFT for number in one.ids] for one in self._encoded(texts, self._library.encode_batch_fast)
        ]

    def pieces_batch(self, texts: Sequence[str]) -> list[list[str]]:
        """Tokens by name; what has none is written as it stands.

        Raises:
            UserError: as `encode`.
        """
        return [one.tokens for one in self._encoded(texts, self._library.encode_batch)]

    def _encoded(self, texts: Sequence[str], encode: Callable[..., list[Any]]) -> list[Any]:
        try:
            return encode(list(texts), add_special_tokens=False)
        except TypeError:
            broken = next((text for text in texts if _has_surrogate(text)), None)
            if broken is None:
                raise
            raise UserError(f"the text {broken[:60]!r} holds half a surrogate pair, which is no character") from None

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`, without control tokens. Bytes that are not UTF-8 become U+FFFD.

        Raises:
            IndexError: an id is not one of the vocabulary's.
        """
        own = [number - _SHIFT for number in ids if number not in range(_SHIFT)]
        if own and not 0 <= min(own) <= max(own) < len(self) - _SHIFT:
            raise IndexError(f"ids to decode go from {min(own) + _SHIFT} to {max(own) + _SHIFT}, outside {len(self)}")
        return self._library.decode(own, skip_special_tokens=False)

    def spelt(self, tokens: list[str]) -> str:
        """The text of the library's own tokens."""
        decoder = self._library.decoder
        return " ".join(tokens) if decoder is None else decoder.decode(tokens)

    def state(self) -> dict[str, Any]:
        """What restores it, for checkpoints."""
        return {"tokenizer": self.json}

    def _check(self, name: str, model: dict[str, Any], ids: list[int], unknown: int | None) -> None:
        """What a file from elsewhere can have wrong.

        Raises:
            UserError: no tokens, ids with holes or used twice, random segmentation, text without a token for it.
        """
        if not ids:
            raise UserError(f"{name} has no tokens")
        if ids != list(range(len(ids))):
            odd = next(number for number, found in enumerate(ids) if number != found)
            raise UserError(f"{name} must number its {len(ids)} tokens from 0 on, each once; id {odd} breaks this")
        if model.get("dropout"):
            raise UserError(
                f"{name} has model.dropout={model['dropout']}: a text has another encoding each time; set it to null"
            )
        if unknown is None:
            # Letters hardly any vocabulary holds: one token each, or bytes.
            rare = "\ua66e\U00010380" * 10
            try:
                covered = len(self._library.encode(rare, add_special_tokens=False).ids) >= len(rare)
            except Exception:  # a model that needs its unknown token and has none
                covered = False
            if not covered:
                raise UserError(f"{name} has no unknown token, yet no tokens for every text; give it model.unk_token")

    def _find_joiner(self) -> tuple[int, ...]:
        """Nothing, where decoding puts the space itself or there is no token for one."""
        first, second, space, joined = self.encode_batch(["a", "b", " ", "a b"])
        needed = self.decode([*first, *second]) != self.decode(joined)
        return tuple(space) if needed and self.unknown not in space else ()


def train_tokenizer(lines: Iterable[str], options: TokenizerOptions, progress: bool) -> Tokenizer:
    """A tokenizer for `lines`.

    Raises:
        UserError: no text.
    """
    return Tokenizer(train_library_tokenizer(lines, options, progress).to_str())


def _unknown(model: dict[str, Any], ids: dict[str, int]) -> int | None:
    """The library's id of the unknown token: Unigram names it by id, the other models by token."""
    if "unk_id" in model:
        return model["unk_id"]
    return ids.get(model.get("unk_token") or "")


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)
