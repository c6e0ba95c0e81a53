"""The tokenizer of a model of the hub as ours: the same text gives the same tokens."""

from __future__ import annotations

import logging
from typing import Any

from relformer.data.text.imported import Controls, ImportedTokenizer
from relformer.data.text.tokenizer import Tokenizer
from relformer.data.vocabulary import SPECIAL, Coder, Vocabulary
from relformer.errors import UserError
from relformer.hf.library import guarded, transformers
from relformer.hf.marian import marian_coders

logger = logging.getLogger("relformer")
FILES = ("tokenizer.json", "spiece.model", "vocab.json", "vocab.txt")
MARIAN = ("source.spm", "target.spm", "vocab.json", "target_vocab.json")


def coders_of(path: str, source: Controls, target: Controls) -> tuple[Coder, Coder]:
    """Both sides' tokenizers, one object where they are one. Without any in `path`, texts are ids, written as numbers.

    Raises:
        UserError: one that the tokenizers library can't do exactly.
    """
    transformers()
    if file_of(path, "source.spm"):
        return marian_coders({name: file_of(path, name) for name in MARIAN}, source, target)
    if any(file_of(path, name) for name in FILES):
        coder = fast_coder(path, target)
        return coder, coder
    logger.info("note: %s has no tokenizer, so its texts are ids, written as numbers", path)
    numbered = Vocabulary(map(str, target.rows[len(SPECIAL) :]))
    one = source == target
    return numbered if one else Vocabulary(map(str, source.rows[len(SPECIAL) :])), numbered


def file_of(path: str, name: str) -> str | None:
    """Where a file of a model lies on this machine, fetched from the hub if need be; None where the model has none."""
    fetch = transformers().utils.cached_file
    found: str | None = guarded(fetch, path, filename=name, _raise_exceptions_for_missing_entries=False)
    return found


def fast_coder(path: str, controls: Controls) -> ImportedTokenizer:
    tokenizer = guarded(transformers().AutoTokenizer.from_pretrained, path)
    if not tokenizer.is_fast:
        raise UserError(
            f"the tokenizer of {path} ({type(tokenizer).__name__}) is written in Python and not one of the tokenizers "
            "library; convert it to a tokenizer.json first"
        )
    text = Tokenizer(tokenizer.backend_tokenizer.to_str(), f"the tokenizer of {path}", specials=True)
    return ImportedTokenizer(text, controls, prefix_of(tokenizer, controls, path))


def prefix_of(tokenizer: Any, controls: Controls, path: str) -> list[int]:
    """The ids before every text; behind it may stand the end alone, which relformer adds itself.

    Raises:
        UserError: something else stands there.
    """
    bare = tokenizer("a", add_special_tokens=False).input_ids
    whole = tokenizer("a").input_ids
    start = next((n for n in range(len(whole)) if whole[n : n + len(bare)] == bare), None)
    if start is None or whole[start + len(bare) :] not in ([], [controls.eos]):
        raise UserError(
            f"the tokenizer of {path} makes {whole} of 'a', which does not end as a relformer text, with EOS"
        )
    return list(whole[:start])
