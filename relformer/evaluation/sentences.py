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

AWAY = "move the file away to compare over seeds alone"
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
        UserError: what is stored is not of the same sentences for all, though the data have the same options, or not of
            as many as the run was measured on.
    """
    if figure == "bleu":
        return of_text(group, base, name, common)
    return None if figure in PERCENT else of_outcomes(group, base, name, figure, common)


def of_outcomes(group: Group, base: Group, name: str, figure: str, common: Sequence[int]) -> OverSentences | None:
    if (found := pairs_of(group, base, name, common, "examples.jsonl", outcome)) is None:
        return None
    column = OUTCOMES.index(figure)
    pairs = [[np.array([values[column] for _, values in rows], dtype=np.float64) for rows in pair] for pair in found]
    mean = np.mean([one - other for one, other in pairs], axis=0)
    low, high = bootstrap_over_sentences(mean)
    right = zip(common, pairs, strict=True) if figure == "exact_match" else ()
    p_by_seed = {seed: mcnemar(one > 0.5, other > 0.5).p_mid for seed, (one, other) in right}
    return OverSentences(len(mean), float(mean.mean()), low, high, p_by_seed)


def of_text(group: Group, base: Group, name: str, common: Sequence[int]) -> OverSentences | None:
    """BLEU of the resampled sets of sentences (Koehn 2004); None also where the runs' scores are computed otherwise."""
    scored = [each.runs[seed]["generated"][name]["bleu"] for seed in common for each in (group, base)]
    if len(signatures := {bleu["signature"] for bleu in scored}) > 1:
        return None
    tokenize = tokenizer_of(*signatures)
    if tokenize is None or (found := pairs_of(group, base, name, common, "outputs.jsonl", text)) is None:
        return None
    pairs = []
    for pair in found:
        texts = [tuple(zip(*rows, strict=True)) for rows in pair]  # references and outputs
        pairs.append([counted(outputs, references, tokenize) for references, outputs in texts])
    counts = np.array(pairs)
    drawn = bootstrap_of_scores(counts[:, 0], counts[:, 1], bleu_of)
    return OverSentences(counts.shape[2], drawn.mean, drawn.low, drawn.high, dict(zip(common, drawn.p, strict=True)))


OUTCOMES = ("exact_match", "correct_prefix")
Row = tuple[Any, Any]
"""What a sentence is known by, and what was made of it."""
Read = Callable[[dict[str, Any]], Row]


def outcome(line: dict[str, Any]) -> Row:
    prefix = line["first_error"] / line["labels"]
    return (line["source_length"], line["target_length"]), (line["exact_match"], prefix)


def text(line: dict[str, Any]) -> Row:
    reference, output = line["reference"], line["output"]
    if not isinstance(reference, str) or not isinstance(output, str):
        raise TypeError("reference and output must be text")
    return reference, output


def pairs_of(
    group: Group, base: Group, name: str, seeds: Sequence[int], file: str, read: Read
) -> list[tuple[list[Row], list[Row]]] | None:
    """What the runs of each seed left of a set's sentences, in the set's order; None where one has nothing."""
    found = []
    for seed in seeds:
        ours, theirs = (stored(each, seed, name, file, read) for each in (group, base))
        if ours is None or theirs is None:
            return None
        found.append((ours, theirs))
    first = [key for key, _ in found[0][1]]
    for seed, pair in zip(seeds, found, strict=True):
        for each, rows in zip((group, base), pair, strict=True):
            if [key for key, _ in rows] != first:
                places = f"{place(each, seed, file)} and {place(base, seeds[0], file)}"
                raise UserError(f"{places} hold other sentences in {name}, though their data have the same options")
    return found


def place(group: Group, seed: int, file: str) -> Path:
    return group.paths[seed].parent / file


def stored(group: Group, seed: int, name: str, file: str, read: Read) -> list[Row] | None:
    """Of one run, as many as it was measured on."""
    if seed not in group.paths or not (path := place(group, seed, file)).is_file():
        return None
    state = path.stat()
    rows = read_lines(path, read, (state.st_mtime_ns, state.st_size)).get(name)
    if rows is not None and len(rows) != (n := group.figures(seed).get(name, {}).get("n", len(rows))):
        rule = f"has {len(rows)} sentences of {name}, of which metrics.json measured {n}"
        raise UserError(f"{path} {rule}; {AWAY}")
    return rows


@cache
def read_lines(path: Path, read: Read, state: tuple[int, int]) -> dict[str, list[Row]]:
    """Lines of JSON by `set`, in the order of `index`; `state` tells a file from the one that had its name before.

    Raises:
        UserError: the line that is not of a sentence.
    """
    found: dict[str, dict[int, Row]] = {}
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                r = json.loads(line)
                found.setdefault(r["set"], {})[int(r["index"])] = read(r)
            except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError) as error:
                rule = f"is not the outcome of a sentence ({type(error).__name__}: {error})"
                raise UserError(f"{path}:{number} {rule}; {AWAY}") from None
    return {name: [rows[index] for index in sorted(rows)] for name, rows in found.items()}
