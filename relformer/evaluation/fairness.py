"""What stands against concluding anything from a comparison, one sentence a fault."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relformer.evaluation.groups import Group
from relformer.evaluation.report import FEW, LEARNED, unlearned
from relformer.evaluation.scores import PERCENT
from relformer.evaluation.tables import spoken

SEEDS = 5
"""Fewer seeds can't separate anything: 3 against 3 have a smallest two-sided p of .10, 5 against 5 of .008."""


@dataclass(frozen=True)
class Warned:
    """`about` is a group's label, or names what all groups share; `grave` makes it red: the numbers mislead."""

    about: str
    text: str
    grave: bool = False


def warnings_of(groups: Sequence[Group], labels: Sequence[str]) -> list[Warned]:
    found = [Warned(label, *said) for group, label in zip(groups, labels, strict=True) for said in faults(group)]
    return found + [Warned("all", text) for text in faults_between(groups, labels)]


def faults(group: Group) -> Iterator[tuple[str, bool]]:
    """Of one group: too few seeds, chosen on the test, not learned, not trained to the end, few sentences."""
    if tuned := [seed for seed, run in group.runs.items() if run.get("tuned_on_test")]:
        yield f"options were chosen on the test sets (seeds {listed(tuned)}): these figures are no test any more", True
    if len(group.runs) < SEEDS:
        seeds = f"{len(group.runs)} seed{'s' * (len(group.runs) > 1)}"
        yield f"{seeds}; fewer than {SEEDS} can't separate two encodings", False
    iid = group.values("test_iid")
    if weak := unlearned(iid, group.sets(), group.config.get("data", {})):
        text = f"{len(weak)} of {len(iid)} runs are below {LEARNED} in distribution: beyond-length not interpretable"
        yield text, False
    planned = group.config.get("max_steps")
    done = {seed: run["checkpoints"].get("last", {}).get("step") for seed, run in group.runs.items()}
    if planned and (short := [seed for seed, step in done.items() if step is not None and step < planned]):
        yield f"seeds {listed(short)} stopped before step {planned}: unequal steps", False
    for name in sorted(group.sets()):
        if 0 < (n := group.sentences(name)) < FEW:
            yield f"{name} has {n} sentences; below {FEW} its figures are rough", False


def faults_between(groups: Sequence[Group], labels: Sequence[str]) -> Iterator[str]:
    """Of groups side by side: other data, steps that nothing has matched, seeds, scores, checkpoints."""
    if len({group.content for group in groups}) > 1:
        yield "the groups are of different data; only those with the baseline's sentences are tested against it"
    apart = {"data.bos": [group.config.get("data", {}).get("bos") for group in groups]}
    if any(run.get("matched") not in ("flops", "time") for group in groups for run in group.runs.values()):
        apart["steps"] = [group.config.get("max_steps") for group in groups]
    for what, values in apart.items():
        if len(set(values)) > 1 and len({group.content for group in groups}) == 1:
            parts = "; ".join(f"{label}: {value}" for label, value in zip(labels, values, strict=True))
            yield f"unequal {what} ({parts})"
    if len({tuple(sorted(group.runs)) for group in groups}) > 1:
        parts = "; ".join(f"{label}: {listed(sorted(g.runs))}" for g, label in zip(groups, labels, strict=True))
        yield f"the groups have other seeds ({parts}): their runs don't pair"
    yield from faults_of_text(groups, labels)
    chosen = {str(run["checkpoint"]) for group in groups for run in group.runs.values()}
    if len(chosen) > 1:
        yield f"some runs report checkpoint {' and others '.join(sorted(chosen))}: not the same choice for all"


def faults_of_text(groups: Sequence[Group], labels: Sequence[str]) -> Iterator[str]:
    """Scores that some runs lack, or that were computed otherwise."""
    for metric in PERCENT:
        signatures: dict[str, dict[str, None]] = {}
        for group, label in zip(groups, labels, strict=True):
            for signature in (str(found["signature"]) for run in group.runs.values() for found in scored(run, metric)):
                signatures.setdefault(signature, {})[label] = None
        if len(signatures) > 1:
            parts = "; ".join(f"{', '.join(of)}: {signature}" for signature, of in sorted(signatures.items()))
            yield f"{spoken(metric)} is not scored alike ({parts})"
        for name in sorted({name for group in groups for name in group.sets()}):
            lacking = {
                label: sorted(g.runs.keys() - g.by_seed(name, metric)) for g, label in zip(groups, labels, strict=True)
            }
            if any(lacking.values()) and any(g.values(name, metric) for g in groups):
                parts = "; ".join(f"{label}, seeds {listed(seeds)}" for label, seeds in lacking.items() if seeds)
                yield f"no {spoken(metric)} of {name} in some runs ({parts}): means and tests are of the others"


def scored(run: Mapping[str, Any], metric: str) -> Iterator[dict[str, Any]]:
    yield from (figures[metric] for figures in run.get("generated", {}).values() if metric in figures)


def listed(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))
