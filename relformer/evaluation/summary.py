"""Outcomes to figures: exact match in its three forms, token accuracy and loss, over all and by length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from relformer.data.encoded import Side
from relformer.evaluation.outcomes import COLUMNS

Z95 = 1.959963984540054
MOST_BUCKETS = 12

FIGURES = ("exact_match", "exact_match_oracle_eos", "correct_prefix", "token_accuracy", "loss")
"""What is measured of every set."""


def falls(figure: str) -> bool:
    """Whether less of it is better: `val/iid/loss` falls, every other of `FIGURES` rises."""
    return figure.endswith("loss")


def wilson(share: float, n: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of a share of n (Wilson 1927)."""
    centre = (share + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
    half = Z95 * math.sqrt(share * (1 - share) / n + Z95**2 / (4 * n**2)) / (1 + Z95**2 / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def figures(rows: Tensor) -> dict[str, Any]:
    """Of the outcomes (n, len(COLUMNS)): corpus figures; `loss` is a mean over tokens, the others over examples."""
    column = dict(zip(COLUMNS, rows.unbind(-1), strict=True))
    labels = column["labels"]
    exact = float(column["exact_match"].mean())
    low, high = wilson(exact, len(rows))
    return {
        "n": len(rows),
        "exact_match": exact,
        "exact_match_low": low,
        "exact_match_high": high,
        "exact_match_oracle_eos": float(column["exact_match_oracle_eos"].mean()),
        "correct_prefix": float((column["first_error"] / labels).mean()),
        "token_accuracy": float(column["correct_tokens"].sum() / labels.sum()),
        "loss": float(column["loss"].sum() / labels.sum()),
    }


def summarise(rows: Tensor, side: Side = "target") -> dict[str, Any]:
    """`figures` of all, and a list `by_length` with those of each length of a side."""
    lengths = rows[:, COLUMNS.index(f"{side}_length")]
    by_length = [
        {"min_length": int(n), "max_length": int(n), **figures(rows[lengths == n])} for n in lengths.unique().tolist()
    ]
    return {**figures(rows), "by_length": by_length}


def bucket_edges(distinct: Sequence[int], most: int = MOST_BUCKETS) -> list[tuple[int, int]]:
    """The least and greatest length of each bucket: one a length, or at most `most` of equal width; some may be
    empty."""
    if len(distinct) <= most:
        return [(n, n) for n in distinct]
    width = math.ceil((distinct[-1] - distinct[0] + 1) / most)
    return [(low, min(low + width - 1, distinct[-1])) for low in range(distinct[0], distinct[-1] + 1, width)]


def bucketed(rows: Tensor, side: Side = "target", most: int = MOST_BUCKETS) -> list[dict[str, Any]]:
    """`figures` by the length of a side, in at most `most` buckets of equal width where there are many lengths."""
    lengths = rows[:, COLUMNS.index(f"{side}_length")]
    found = []
    for low, high in bucket_edges([int(n) for n in lengths.unique().tolist()], most):
        inside = rows[(lengths >= low) & (lengths <= high)]
        if len(inside):
            present = inside[:, COLUMNS.index(f"{side}_length")]
            found.append({"min_length": int(present.min()), "max_length": int(present.max()), **figures(inside)})
    return found


def length_label(bucket: dict[str, Any]) -> str:
    low, high = bucket["min_length"], bucket["max_length"]
    return str(low) if low == high else f"{low}-{high}"
