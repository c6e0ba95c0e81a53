"""All that is measured of a model in three passes over random sentences, and how long these must be."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from relformer.analysis.heads import Head, attention_figures, describe
from relformer.analysis.position_map import PositionPart, position_parts
from relformer.analysis.probe import Probe, draw_probe, fitting
from relformer.data.batching import Frame
from relformer.data.encoded import Corpus
from relformer.encodings import Role
from relformer.model import Seq2Seq

SENTENCES = 32
FRAMED = 16
"""Sentences of the passes that measure the position part, and attention."""
LONGEST = 256
"""The most positions of a sentence, since logits grow with their square; profiles of longer data end there."""


@dataclass(frozen=True)
class Measurement:
    """Of every slot: its position part, its heads by layer, and the furthest distance that training had."""

    parts: dict[Role, PositionPart]
    heads: dict[Role, list[list[Head]]]
    trained: dict[Role, int]


class Measurer:
    """Measures one model again and again on the same sentences.

    The position part on sources and targets twice as long as the longest trained; attention on some as long as those,
    since what a head does with keys further than it ever saw says nothing of what it learned.
    """

    def __init__(self, model: Seq2Seq, corpus: Corpus, frame: Frame) -> None:
        examples = corpus.sets["train"]
        source = int(frame.source_positions(examples.source_lengths).max())
        target = int(frame.target_positions(examples.target_lengths).max())
        self.trained: dict[Role, int] = {role: n - 1 for role, (n, _) in model.lengths(source, target).items()}
        lengths = [max(2 * each - 1, 4) for each in (source, target)]
        most = fitting(model, min(LONGEST, max(lengths)))
        probe = draw_probe(corpus, most, SENTENCES)
        self.probe = probe.cut(*lengths)
        self.framed = self.probe.framed(frame.bos, FRAMED)
        self.usual = probe.cut(source, target).framed(frame.bos, FRAMED)

    def measure(self, model: Seq2Seq) -> Measurement:
        device = next(model.parameters()).device
        parts = position_parts(model, on(self.probe, device))
        figures = attention_figures(model, on(self.usual, device), self.trained)
        longer = attention_figures(model, on(self.framed, device), self.trained)
        heads = {
            role: describe(parts[role], found | {"beyond": longer[role]["beyond"]}, self.trained[role])
            for role, found in figures.items()
        }
        return Measurement(parts, heads, self.trained)


def on(probe: Probe, device: torch.device) -> Probe:
    return Probe(probe.source.to(device), probe.target.to(device))
