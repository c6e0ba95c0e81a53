"""Two groups of trained models on the same sentences: their outcomes, or the text that they wrote.

What a run leaves of each sentence is read: `examples.jsonl` has exact match and correct prefix, `outputs.jsonl` text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from relformer.errors import UserError
from relformer.evaluation.groups import Group
from relformer.evaluation.scores import PERCENT, bleu_counts, bleu_of, tokenizer_of
from relformer.evaluation.statistics import bootstrap_of_scores, bootstrap_over_sentences, mcnemar

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class OverSentences:
    """The difference of these trained models on these sentences: seeds in common, 95 % bootstrap interval of the mean
    over them, and a p of each pair of runs: McNemar's mid-p of exact match, the paired bootstrap's of BLEU, no other.
    """

    n: int
    mean: float
    low: float
    high: float
    p_by_seed: dict[int, float]


def over_sentences(group: Group, base: Group, name: str, figure: str, common: Sequence[int]) -> OverSentences | None:
    """A figure of one set, of the runs with these seeds; None where one has nothing stored, and for chrF.

    Raises:
        UserError: what is stored is of other sentences, though the data have the same options.
    """
    if figure == "bleu":
        return of_text(group, base, name, common)
    return None if figure in PERCENT else of_outcomes(group, base, name, figure, common)


def of_outcomes(group: Group, base: Group, name: str, figure: str, common: Sequence[int]) -> OverSentences | None:
    pairs = {}
    for seed in common:
        found = [stored(each, seed, name, "examples.jsonl", outcome) for each in (group, base)]
        if found[0] is None or found[1] is None:
            return None
        ours, theirs = (np.array(rows, dtype=np.float64) for rows in found)
        if not np.array_equal(ours[:, :2], theirs[:, :2]):
            raise other_sentences(group, base, seed, name, "examples.jsonl")
        column = OUTCOMES.index(figure)
        pairs[seed] = ours[:, column], theirs[:, column]
    mean = np.mean([one - other for one, other in pairs.values()], axis=0)
    low, high = bootstrap_over_sentences(mean)
    right = pairs.items() if figure == "exact_match" else ()
    p_by_seed = {seed: mcnemar(one > 0.5, other > 0.5).p_mid for seed, (one, other) in right}
    return OverSentences(len(mean), float(mean.mean()), low, high, p_by_seed)


def of_text(group: Group, base: Group, name: str, common: Sequence[int]) -> OverSentences | None:
    """BLEU of the resampled sets of sentences (Koehn 2004); None also where the runs' are of other tokenizers."""
    ours, theirs = [], []
    for seed in common:
        found = [stored(each, seed, name, "outputs.jsonl", text) for each in (group, base)]
        if found[0] is None or found[1] is None:
            return None
        tokenize = {tokenizer_of(each.runs[seed]["generated"][name]["bleu"]["signature"]) for each in (group, base)}
        if len(tokenize) > 1:
            return None
        references, other = ([reference for _, reference in rows] for rows in found)
        if references != other:
            raise other_sentences(group, base, seed, name, "outputs.jsonl")
        for side, rows in zip((ours, theirs), found, strict=True):
            side.append(bleu_counts([output for output, _ in rows], references, *tokenize))
    drawn = bootstrap_of_scores(np.array(ours), np.array(theirs), bleu_of)
    return OverSentences(len(ours[0]), drawn.mean, drawn.low, drawn.high, dict(zip(common, drawn.p, strict=True)))


def other_sentences(group: Group, base: Group, seed: int, name: str, file: str) -> UserError:
    places = " and ".join(str(each.paths[seed].parent / file) for each in (group, base))
    return UserError(f"{places} hold other sentences in {name}, though their data have the same options")


OUTCOMES = ("source_length", "target_length", "exact_match", "correct_prefix")


def outcome(line: dict[str, Any]) -> tuple[float, ...]:
    prefix = line["first_error"] / line["labels"]
    return line["source_length"], line["target_length"], line["exact_match"], prefix


def text(line: dict[str, Any]) -> tuple[str, str]:
    return str(line["output"]), str(line["reference"])


Read = Callable[[dict[str, Any]], tuple[Any, ...]]


def stored(group: Group, seed: int, name: str, file: str, read: Read) -> list[tuple[Any, ...]] | None:
    """What a run left of a set's sentences, in the set's order; None where there is nothing."""
    metrics = group.paths.get(seed)
    path = metrics.parent / file if metrics else None
    return read_lines(path, read).get(name) if path and path.exists() else None


@cache
def read_lines(path: Path, read: Read) -> dict[str, list[tuple[Any, ...]]]:
    """Lines of JSON by `set`, in the order of `index`.

    Raises:
        UserError: the line that is not of a sentence.
    """
    found: dict[str, dict[int, tuple[Any, ...]]] = {}
    for name, index, row in lines_of(path, read):
        found.setdefault(name, {})[index] = row
    return {name: [rows[index] for index in sorted(rows)] for name, rows in found.items()}


def lines_of(path: Path, read: Read) -> Iterator[tuple[str, int, tuple[Any, ...]]]:
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                r = json.loads(line)
                yield r["set"], int(r["index"]), read(r)
            except (ValueError, KeyError, TypeError) as error:
                rule = f"is not of a sentence ({type(error).__name__}: {error})"
                raise UserError(f"{path}:{number} {rule}; move the file away to compare over seeds alone") from None
