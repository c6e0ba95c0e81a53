"""Marian's tokenizers: a sentencepiece model for each side, and a vocabulary by which its pieces have their ids.

transformers reads them through the sentencepiece library; here its converter makes them tokenizers of the tokenizers
library, so that a run needs neither. Language codes such as `>>fra<<` are tokens wherever in a text they stand, not at
its start alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import tokenizers

from relformer.data.text.imported import Controls, ImportedTokenizer
from relformer.data.text.tokenizer import Tokenizer
from relformer.errors import UserError

CODE = re.compile(r">>.+<<")
UNIGRAM = 1
"""The number of that model in sentencepiece's files."""


def marian_coders(
    files: Mapping[str, str | None], source: Controls, target: Controls
) -> tuple[ImportedTokenizer, ImportedTokenizer]:
    """Both sides' tokenizers, from `source.spm`, `target.spm`, `vocab.json` and perhaps `target_vocab.json`.

    Raises:
        UserError: one of the first three is missing, or protobuf.
    """
    if missing := [name for name, path in files.items() if path is None and name != "target_vocab.json"]:
        raise UserError(
            f"the model has no {missing[0]}; Marian's tokenizers need source.spm, target.spm and vocab.json"
        )
    names = named(files["vocab.json"])
    return (
        ImportedTokenizer(tokenizer_of(files["source.spm"], names), source, names=names),
        ImportedTokenizer(
            tokenizer_of(files["target.spm"], names), target, names=named(files["target_vocab.json"]) or names
        ),
    )


def named(path: str | None) -> list[str]:
    """The tokens of a vocabulary, by id."""
    if path is None:
        return []
    ids: dict[str, int] = json.loads(Path(path).read_text(encoding="utf-8"))
    return sorted(ids, key=ids.__getitem__)


def tokenizer_of(path: str | None, names: list[str]) -> Tokenizer:
    """A sentencepiece model as a tokenizer of the library.

    Raises:
        UserError: protobuf is missing, or the model is none of pieces with scores.
    """
    from transformers.convert_slow_tokenizer import SpmConverter, import_protobuf

    try:
        model = import_protobuf().ModelProto()
    except ImportError:
        raise UserError("Marian's tokenizers need protobuf; install it: pip install 'relformer[hf]'") from None
    model.ParseFromString(Path(str(path)).read_bytes())
    if model.trainer_spec.model_type != UNIGRAM:
        raise UserError(f"{path} is not a unigram model of sentencepiece, which is what relformer converts for Marian")
    pieces = [(piece.piece, piece.score) for piece in model.pieces]
    library = SpmConverter.build_tokenizer_from_spm_proto(model, pieces)
    library.add_special_tokens(
        [tokenizers.AddedToken(name, normalized=False) for name in names if CODE.fullmatch(name)]
    )
    return Tokenizer(library.to_str(), str(path), specials=True)
