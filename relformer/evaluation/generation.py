"""What a model writes when nothing is given but the source, and how that compares with the references."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch.distributed as dist
from torch import Tensor

from relformer.data.encoded import EncodedSet
from relformer.data.vocabulary import BOS, EOS, Coder
from relformer.decoding import DecodingOptions, decode
from relformer.evaluation.outcomes import COLUMNS
from relformer.evaluation.scores import text_scores
from relformer.evaluation.summary import bucketed
from relformer.model import Seq2Seq

ROOM = 10
"""Tokens that an output may be longer than the longest reference, where the source says nothing of its length."""


@dataclass(frozen=True)
class Output:
    """The best hypothesis for the example `index`: ids without BOS and EOS."""

    index: int
    tokens: list[int]
    reached_limit: bool


@dataclass(frozen=True)
class Generator:
    """Decodes batches of a corpus. Sentences follow the options' limit, which goes with the source's length; for other
    targets, whose length need not, it is the longest reference and ten. No output is longer than an encoding's table.
    """

    options: DecodingOptions
    longest: int | None

    def outputs(self, model: Seq2Seq, source: Tensor, index: Sequence[int], positions: Tensor | None) -> list[Output]:
        """Of the rows of a batch (B, S) that stand for examples; fillers (index < 0) are left out."""
        options = self.options
        if self.longest is not None:
            limit = self.longest + ROOM
            options = replace(options, max_length_base=max(limit, options.min_length_base), max_length_factor=0.0)
        found = decode(model, source, options, BOS, EOS, positions=positions, fitting=True)
        return [
            Output(row, best[0].tokens, best[0].reached_limit)
            for row, best in zip(index, found, strict=True)
            if row >= 0
        ]


def gathered(found: list[Output]) -> list[Output]:
    """The outputs of all ranks, each example's once, in the order of the set."""
    parts: list[Any] = [found]
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        parts = [None] * dist.get_world_size()
        dist.all_gather_object(parts, found)
    by_index = {output.index: output for part in parts for output in part}
    return [by_index[index] for index in sorted(by_index)]


def texts_of(outputs: Sequence[Output], examples: EncodedSet, coder: Coder) -> tuple[list[str], list[str]]:
    """Hypotheses and references as lines of text."""
    hypotheses = [coder.decode(output.tokens) for output in outputs]
    if examples.references is None:
        return hypotheses, [coder.decode(examples.targets[output.index]) for output in outputs]
    return hypotheses, [examples.references[output.index] for output in outputs]


def generation_figures(
    outputs: Sequence[Output],
    examples: EncodedSet,
    coder: Coder,
    rows: Tensor | None = None,
    bootstrap: int = 1000,
    tokenize: str = "13a",
) -> dict[str, Any]:
    """What to say of the outputs of a set.

    `exact_match` compares ids; `length_difference` counts, by generated minus reference tokens; `reached_limit` counts
    the outputs that were cut off. Sentences have BLEU, chrF and TER as well, with 95 % intervals over sentences.

    Args:
        rows: outcomes of the whole set (n, len(COLUMNS)); with them, scores by length are there too.
        bootstrap, tokenize: see `text_scores`.
    """
    differences = [len(output.tokens) - int(examples.target_lengths[output.index]) for output in outputs]
    exact = sum(output.tokens == list(examples.targets[output.index]) for output in outputs)
    found: dict[str, Any] = {
        "n": len(outputs),
        "exact_match": exact / len(outputs),
        "reached_limit": sum(output.reached_limit for output in outputs),
        "length_difference": {str(key): count for key, count in sorted(Counter(differences).items())},
    }
    if not coder.sentences:
        return found
    hypotheses, references = texts_of(outputs, examples, coder)
    found |= text_scores(hypotheses, references, bootstrap, tokenize)
    if rows is not None:
        lengths = rows[:, COLUMNS.index("target_length")]
        found["by_length"] = []
        for bucket in bucketed(rows):
            low, high = bucket["min_length"], bucket["max_length"]
            inside = ((lengths >= low) & (lengths <= high)).nonzero()[:, 0].tolist()
            scores = text_scores([hypotheses[n] for n in inside], [references[n] for n in inside], 0, tokenize)
            limit = sum(outputs[n].reached_limit for n in inside)
            found["by_length"].append(
                {"min_length": low, "max_length": high, "n": len(inside), "reached_limit": limit, **scores}
            )
    return found
