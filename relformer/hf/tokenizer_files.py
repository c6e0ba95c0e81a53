"""Our tokenizers as those of transformers: the same ids for the same text, control tokens at 0, 1 and 2."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tokenizers

from relformer.data.text.corrupted import SentinelTokenizer
from relformer.data.text.imported import ImportedTokenizer
from relformer.data.text.tokenizer import Tokenizer
from relformer.data.vocabulary import BOS, EOS, PAD, SPECIAL, Coder, Vocabulary
from relformer.errors import UserError
from relformer.hf.library import transformers


def write_tokenizer(coder: Coder, folder: Path, bos: bool) -> None:
    """tokenizer.json and tokenizer_config.json, so that AutoTokenizer reads them.

    Args:
        bos: whether sources begin with BOS, as `data.bos` says.

    Raises:
        UserError: a tokenizer that is not one of the library alone.
    """
    if isinstance(coder, ImportedTokenizer):
        if coder.names is not None:
            raise UserError("a tokenizer imported from Marian has its ids from a second file, which T5's has not")
        content, rows = json.loads(coder.text.json), coder.controls
        pad, eos = (coder.called[row] for row in (rows.pad, rows.eos))
        begin, end = [coder.called[row] for row in coder.prefix], {eos: rows.eos}
        end |= dict(zip(begin, coder.prefix, strict=True))
        controls = {"pad_token": pad, "eos_token": eos}
    else:
        pad, begun, eos = SPECIAL
        content, begin, end = renumbered(coder), [begun] if bos else [], {begun: BOS, eos: EOS}
        controls = {"pad_token": pad, "bos_token": begun, "eos_token": eos}
    content["post_processor"] = framed(begin, eos, end)
    if coder.unknown is not None:
        controls["unk_token"] = coder.tokens[coder.unknown]
    library = tokenizers.Tokenizer.from_str(json.dumps(content))
    fast = transformers().PreTrainedTokenizerFast(tokenizer_object=library, **controls)
    fast.save_pretrained(folder)


def framed(begin: Sequence[str], eos: str, ids: dict[str, int]) -> dict[str, Any]:
    """What puts control tokens around a text."""
    special = {name: {"id": name, "ids": [number], "tokens": [name]} for name, number in ids.items()}
    around = [*begin, None, eos]

    def template(*kinds: str) -> list[dict[str, Any]]:
        return [
            {"Sequence": {"id": kind, "type_id": 0}} if name is None else {"SpecialToken": {"id": name, "type_id": 0}}
            for kind in kinds
            for name in around
        ]

    return {
        "type": "TemplateProcessing",
        "single": template("A"),
        "pair": template("A", "B"),
        "special_tokens": special,
    }


def renumbered(coder: Coder) -> dict[str, Any]:
    """The library's JSON of one of our tokenizers, with the control tokens in it at our ids.

    Raises:
        UserError: it has a token of that name already.
    """
    if isinstance(coder, Vocabulary):
        model = {"type": "WordLevel", "vocab": {t: n for n, t in enumerate(coder.tokens)}, "unk_token": SPECIAL[PAD]}
        split = {"type": "WhitespaceSplit"}
        plain = json.loads(tokenizers.Tokenizer(tokenizers.models.WordLevel()).to_str())
        return {
            **plain,
            "model": model,
            "pre_tokenizer": split,
            "added_tokens": list(map(added, SPECIAL, (PAD, BOS, EOS))),
        }
    text = coder.text if isinstance(coder, SentinelTokenizer) else coder
    assert isinstance(text, Tokenizer)
    content: dict[str, Any] = json.loads(text.json)
    model, shift = content["model"], len(SPECIAL)
    if taken := set(SPECIAL) & set(text.tokens[shift:]):
        raise UserError(f"the tokenizer has a token {min(taken)!r} of its own, which is the name of a control token")
    if isinstance(model["vocab"], list):  # Unigram
        model["vocab"] = [[name, 0.0] for name in SPECIAL] + model["vocab"]
        model["unk_id"] = None if model["unk_id"] is None else model["unk_id"] + shift
    else:
        model["vocab"] = {name: n for n, name in enumerate(SPECIAL)} | {
            token: number + shift for token, number in model["vocab"].items()
        }
    moved = [{**token, "id": token["id"] + shift} for token in content["added_tokens"]]
    sentinels = map(added, coder.tokens[len(text) :], range(len(text), len(coder)))
    content["added_tokens"] = [*map(added, SPECIAL, (PAD, BOS, EOS)), *moved, *sentinels]
    return content


def added(name: str, number: int) -> dict[str, Any]:
    """A special token in the library's JSON."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": name, **flags, "special": True}
