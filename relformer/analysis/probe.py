"""Sentences whose content goes with nothing: every token drawn from the training unigrams, whatever its position.

In real sentences content goes with position (a verb here, a full stop there), and a mean over them would call
position what is content. So would a mean over few random ones, by chance: therefore every position of a block of
sentences holds the same tokens, in an order of its own. Two blocks, each with tokens of its own, tell chance from
position.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relformer.analysis.watch import still
from relformer.data.encoded import Corpus, EncodedSet, Side
from relformer.data.vocabulary import BOS, EOS
from relformer.encodings import LengthError
from relformer.encodings.parameters import seed_of
from relformer.model import Seq2Seq

COUNTED = 5000
"""Training examples that unigrams are counted in, evenly spread over the set."""


@dataclass(frozen=True)
class Probe:
    """Token ids of sources (B, S) and targets (B, T)."""

    source: Tensor
    target: Tensor

    def cut(self, source: int, target: int) -> Probe:
        """The first so many tokens of each side."""
        return Probe(self.source[:, :source], self.target[:, :target])

    def framed(self, bos: bool, sentences: int) -> Probe:
        """The first sentences as a model knows them: BOS (before the source where `bos`) and EOS at their places."""
        source, target = self.source[:sentences].clone(), self.target[:sentences].clone()
        source[:, -1], target[:, 0] = EOS, BOS
        if bos:
            source[:, 0] = BOS
        return Probe(source, target)


def draw_probe(corpus: Corpus, length: int, sentences: int, seed: int = 0) -> Probe:
    """`sentences` (an even number) pairs of `length` tokens each; the same for one corpus and one seed."""
    generator = np.random.default_rng(seed_of(seed, "probe"))

    def side(name: Side, size: int) -> Tensor:
        share = unigrams(corpus.sets["train"], name, size)
        blocks = [block(share, length, sentences // 2, generator) for _ in range(2)]
        return torch.from_numpy(np.concatenate(blocks))

    return Probe(
        side("source", len(corpus.source_vocabulary)),
        side("target", len(corpus.target_vocabulary)),
    )


def block(share: NDArray[np.float64], length: int, sentences: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """(sentences, length): one systematic sample of the unigrams, in a random order at each position."""
    points = (np.arange(sentences) + generator.random()) / sentences
    tokens = np.searchsorted(share.cumsum(), points * share.sum(), side="right").clip(max=len(share) - 1)
    return generator.permuted(np.repeat(tokens[:, None], length, axis=1), axis=0)


def unigrams(examples: EncodedSet, side: Side, size: int) -> NDArray[np.float64]:
    """The share of each of `size` token ids in the training examples; BOS and EOS are not in them."""
    counts = np.zeros(size)
    for row in range(0, len(examples), max(1, len(examples) // COUNTED)):
        counts += np.bincount(examples.pair(row, 0)[side == "target"], minlength=size)
    return counts / counts.sum()


def fitting(model: Seq2Seq, wanted: int) -> int:
    """The longest sentences, up to `wanted` tokens a side, for which every slot has positions."""
    length = wanted
    while length > 1 and not has_positions(model, length):
        length -= 1
    return length


def has_positions(model: Seq2Seq, length: int) -> bool:
    """Whether tables and samplers have positions for so many tokens of each side."""
    needed = {role: n for role, (n, _) in model.lengths(length, length).items()}
    for role, slot in model.slots.items():
        if any(limit is not None and limit < needed[role] for limit in (e.max_positions() for e in slot)):
            return False
    try:
        with still(model):
            for role, slot in model.slots.items():
                slot.first.positions(needed[role], 1, torch.device("cpu"))
    except LengthError:
        return False
    return True
