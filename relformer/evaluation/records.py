"""A comparison as numbers in full, one record a group, set, figure and bucket of lengths: what `--csv` writes."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Iterator, Sequence

from relformer.evaluation.differences import Difference
from relformer.evaluation.groups import Bucket, edges_of
from relformer.evaluation.tables import Comparison, within_scale


def to_csv(comparison: Comparison) -> str:
    """A header and a line a record; what a record has no value for is empty."""
    found = list(records(comparison))
    keys = list(dict.fromkeys(key for record in found for key in record))
    text = io.StringIO()
    writer = csv.DictWriter(text, keys, lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return text.getvalue()


def records(comparison: Comparison) -> Iterator[dict[str, object]]:
    """One record a group, set, figure and bucket of lengths ; of all lengths together where the bucket is empty."""
    tests = {(each.group, each.set, each.figure): each for each in comparison.differences}
    for number, (group, label) in enumerate(zip(comparison.groups, comparison.labels, strict=True)):
        costs = {key: statistics.median(values) for key, values in group.costs.items()}
        for name, figure in comparison.columns:
            found = group.by_seed(name, figure)
            against = of_test(tests.get((number, name, figure)), comparison.labels[comparison.baseline])
            yield {
                **of_values(label, name, figure, None, list(found.values()), group.sentences(name)),
                "seeds": " ".join(map(str, found)),
                "values": " ".join(f"{value:.6g}" for value in found.values()),
                **against,
                **costs,
            }
            for edge, values in group.by_length(name, edges_of(comparison.groups, name, figure), figure).items():
                yield of_values(label, name, figure, edge, values, group.sentences(name, edge, figure))


def of_values(
    label: str, name: str, figure: str, edge: Bucket | None, values: Sequence[float], sentences: int
) -> dict[str, object]:
    interval = within_scale(values, figure) or (None, None)
    return {
        "runs": label,
        "set": name,
        "figure": figure,
        "min_length": edge[0] if edge else None,
        "max_length": edge[1] if edge else None,
        "n_seeds": len(values),
        "mean": statistics.mean(values) if values else None,
        "sd_over_seeds": statistics.stdev(values) if len(values) > 1 else None,
        "low_over_seeds": interval[0],
        "high_over_seeds": interval[1],
        "n_sentences": sentences,
    }


def of_test(found: Difference | None, baseline: str) -> dict[str, object]:
    if found is None:
        return {}
    sentences = found.sentences
    over: dict[str, object] = {}
    if sentences is not None:  # of the seeds that both have
        over = {"difference_over_sentences": sentences.mean, "low_over_sentences": sentences.low}
        over |= {"high_over_sentences": sentences.high, "n_over_sentences": sentences.n}
    low, high = found.interval or (None, None)
    return {
        "baseline": baseline,
        "difference": found.mean,
        "difference_low_over_seeds": low,
        "difference_high_over_seeds": high,
        "test": found.test.kind,
        "p": found.test.p,
        "p_least": found.test.least,
        "p_holm": found.p_holm,
        **over,
        "p_by_seed": " ".join(f"{seed}:{p:.4g}" for seed, p in sentences.p_by_seed.items()) if sentences else "",
    }
