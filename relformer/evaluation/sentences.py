"""Two groups of trained models on the same sentences: their outcomes, or the text that they wrote.

What a run leaves of each sentence is read: `examples.jsonl` has exact match and correct prefix, `outputs.jsonl` text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from relformer.errors import UserError
from relformer.evaluation.groups import Group
from relformer.evaluation.scores import PERCENT, bleu_counts, bleu_of, tokenizer_of
from relformer.evaluation.statistics import bootstrap_of_scores, bootstrap_over_sentences, mcnemar

counted = cache(bleu_counts)
"""A baseline is counted once, whatever number of groups stands against it."""


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
        if (found := both(group, base, seed, name, "examples.jsonl", outcome)) is None:
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
    """BLEU of the resampled sets of sentences (Koehn 2004); None also where the runs' scores are computed otherwise."""
    pairs = []
    for seed in common:
        signatures = {each.runs[seed]["generated"][name]["bleu"]["signature"] for each in (group, base)}
        found = both(group, base, seed, name, "outputs.jsonl", text)
        if found is None or len(signatures) > 1:
            return None
        (ours, references), (theirs, other) = (zip(*rows, strict=True) for rows in found)
        if references != other:
            raise other_sentences(group, base, seed, name, "outputs.jsonl")
        tokenize = tokenizer_of(*signatures)
        pairs.append([counted(outputs, references, tokenize) for outputs in (ours, theirs)])
    counts = np.array(pairs)
    drawn = bootstrap_of_scores(counts[:, 0], counts[:, 1], bleu_of)
    return OverSentences(counts.shape[2], drawn.mean, drawn.low, drawn.high, dict(zip(common, drawn.p, strict=True)))


def other_sentences(group: Group, base: Group, seed: int, name: str, file: str) -> UserError:
    places = " and ".join(str(each.paths[seed].parent / file) for each in (group, base))
    return UserError(f"{places} hold other sentences in {name}, though their data have the same options")


OUTCOMES = ("source_length", "target_length", "exact_match", "correct_prefix")


def outcome(line: dict[str, Any]) -> tuple[float, ...]:
    prefix = line["first_error"] / line["labels"]
    return line["source_length"], line["target_length"], line["exact_match"], prefix


def text(line: dict[str, Any]) -> tuple[str, str]:
    return str(line["output"]), str(line["reference"])


Row = tuple[Any, ...]
Read = Callable[[dict[str, Any]], Row]


def both(group: Group, base: Group, seed: int, name: str, file: str, read: Read) -> tuple[list[Row], list[Row]] | None:
    """What the runs of a seed left of a set's sentences, in the set's order; None where one has nothing."""
    paths = [each.paths[seed].parent / file for each in (group, base) if seed in each.paths]
    found = [read_lines(path, read).get(name) for path in paths if path.exists()]
    ours, theirs = found if len(found) == 2 else (None, None)
    return None if ours is None or theirs is None else (ours, theirs)


@cache
def read_lines(path: Path, read: Read) -> dict[str, list[Row]]:
    """Lines of JSON by `set`, in the order of `index`.

    Raises:
        UserError: the line that is not of a sentence.
    """
    found: dict[str, dict[int, Row]] = {}
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                r = json.loads(line)
                found.setdefault(r["set"], {})[int(r["index"])] = read(r)
            except (ValueError, KeyError, TypeError) as error:
                rule = f"is not the outcome of a sentence ({type(error).__name__}: {error})"
                raise UserError(f"{path}:{number} {rule}; move the file away to compare over seeds alone") from None
    return {name: [rows[index] for index in sorted(rows)] for name, rows in found.items()}
