"""Small tokenizers as T5 and BART have them, trained on a few sentences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import models, pre_tokenizers, trainers

TEXTS = [
    "A man in a blue shirt is standing on a ladder cleaning a window.",
    "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.",
    "  Several   men in hard hats\tare operating a giant pulley system. ",
    "naïve café — “quotes”, 3.14 ½ 中文 \U0001f600",
    "",
    "x",
    "fill in <extra_id_0> and <extra_id_3>.",
]
CORPUS = [text for text in TEXTS if "<" not in text and "中" not in text] * 4


def t5_tokenizer() -> Any:
    """`<pad>` 0, `</s>` 1, `<unk>` 2, then pieces, then sentinels that count down."""
    import transformers

    library = tokenizers.Tokenizer(models.Unigram())
    library.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=120, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
    )
    library.train_from_iterator(CORPUS, trainer)
    pieces = json.loads(library.to_str())["model"]["vocab"]
    pieces += [(f"<extra_id_{number}>", 0.0) for number in range(7, -1, -1)]
    return transformers.T5Tokenizer(vocab=[(piece, score) for piece, score in pieces], extra_ids=8)


def bart_tokenizer() -> Any:
    """Byte-level BPE with `<s>` 0, `<pad>` 1, `</s>` 2, `<unk>` 3, `<mask>` last."""
    import transformers

    library = tokenizers.Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=340,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    library.train_from_iterator(CORPUS, trainer)
    model = json.loads(library.to_str())["model"]
    vocab = model["vocab"] | {"<mask>": len(model["vocab"])}
    return transformers.BartTokenizer(vocab=vocab, merges=[tuple(pair) for pair in model["merges"]])


def saved_with(tokenizer: Any, model: Any, folder: Path) -> Path:
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    return folder
