"""A module, and a trainer that stands at a step, for callbacks that look inside the model."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from matplotlib.image import imread

from relformer.data.batching import Frame
from relformer.data.encoded import Corpus, EncodedSet
from relformer.data.vocabulary import Vocabulary
from relformer.training.module import Seq2SeqModule

MODEL = {"width": 16, "heads": 2, "feedforward": 16}
LETTERS = "abcdefghi"
TRAINED = 4
"""Tokens of the longest example. A source has 6 positions with BOS and EOS, 5 apart at most, and 11 when measured; a
target has 5, 4 apart, and 9."""


def module(**slots: Any) -> Any:
    vocabulary = {"source": list(LETTERS), "target": list(LETTERS)}
    sizes = {"length_side": "target", "trained_length": TRAINED}
    return Seq2SeqModule({"seed": 0, "model": MODEL, "vocabulary": vocabulary} | sizes | slots)


def corpus() -> Corpus:
    rows = [[3 + (n + m) % len(LETTERS) for m in range(1 + n % TRAINED)] for n in range(40)]
    examples = EncodedSet(rows, [row[::-1] for row in rows])
    coder = Vocabulary(LETTERS)
    return Corpus(coder, coder, {"train": examples, "val_iid": examples})


DATA = SimpleNamespace(corpus=corpus(), options=SimpleNamespace(frame=Frame()))


def trainer(step: int = 0, rank_zero: bool = True, loggers: list[Any] | None = None) -> Any:
    state = SimpleNamespace(fn="fit")
    return SimpleNamespace(
        global_step=step,
        is_global_zero=rank_zero,
        loggers=loggers or [],
        datamodule=DATA,
        state=state,
        sanity_checking=False,
    )


def files(directory: Path) -> set[str]:
    return {path.name for path in directory.glob("**/*") if path.is_file()}


def drawn(directory: Path, stem: str) -> tuple[Any, Any]:
    """The pixels and the numbers of one picture."""
    numbers = np.load(directory / f"{stem}.npz")
    pixels = (imread(directory / f"{stem}.png")[..., :3] * 255).round().astype(np.uint8)
    return pixels, numbers
