"""One slow oracle an encoding: loops over heads, queries and keys in float64, straight from the formulas.

Nothing here comes from the implementation. A newly registered encoding gets an entry in `ORACLES`, here or in the file
of its family (`all_oracles` joins them); where its logits are q·k alone, `Oracle()` will do.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Rows = list[list[list[float]]]


@dataclass(frozen=True)
class Case:
    """An encoding with its sizes, all its options and its parameters as nested lists."""

    heads: int
    head_dim: int
    width: int
    role: str
    options: dict[str, Any]
    weights: dict[str, Any]


@dataclass(frozen=True)
class Call:
    """One sequence: q, k and v as [head][row][channel], the positions of the rows, and which pairs may meet."""

    q: Rows
    k: Rows
    v: Rows
    i: list[int]
    j: list[int]
    keep: list[list[bool]]
    x: list[list[float]] = field(default_factory=list)
    """The keys' inputs as [row][channel], of which `features` are made."""


def dot(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def plain(case: Case, call: Call, h: int, a: int, b: int) -> float:
    return dot(call.q[h][a], call.k[h][b]) / math.sqrt(case.head_dim)


def wave(t: int, width: int, layout: str, base: float = 10000.0) -> list[float]:
    """One row of the sinusoid."""
    out, half = [0.0] * width, width // 2
    for c in range(half):
        angle = t / base ** (c / (half - 1) if layout == "fairseq" else 2 * c / width)
        sine, cosine = (2 * c, 2 * c + 1) if layout == "interleaved" else (c, half + c)
        out[sine], out[cosine] = math.sin(angle), math.cos(angle)
    return out


def unchanged(case: Case, x: list[float], t: int) -> list[float]:
    return x


def no_value(case: Case, call: Call, h: int, a: int, b: int) -> list[float]:
    return [0.0] * case.head_dim


def everything(case: Case, distance: int) -> bool:
    return True


@dataclass(frozen=True)
class Oracle:
    """The formula of one encoding, the options to try it with, and what kind of encoding it is."""

    logit: Callable[[Case, Call, int, int, int], float] = plain
    value: Callable[[Case, Call, int, int, int], list[float]] = no_value
    """What is added to v_j for one pair."""
    embed: Callable[[Case, list[float], int], list[float]] = unchanged
    variants: list[dict[str, Any]] = field(default_factory=lambda: [{}])
    seen: Callable[[Case, int], bool] = everything
    """Whether keys at a distance i - j may be attended."""
    shift_invariant: bool = True
    """Whether adding one number to all positions leaves the attention as it is."""
    mirror_blind: bool = False
    """Whether an encoder with this encoding takes a sequence for its mirror image."""


ORACLES: dict[str, Oracle] = {
    "none": Oracle(mirror_blind=True),
}


def attention(case: Case, oracle: Oracle, call: Call) -> tuple[Rows, Rows]:
    """Probabilities [head][query][key] and outputs [head][query][channel]; nothing to see gives zeros."""
    probabilities, outputs = [], []
    for h in range(case.heads):
        weights_of_head, rows_of_head = [], []
        for a in range(len(call.i)):
            free = [b for b in range(len(call.j)) if call.keep[a][b]]
            seen = [b for b in free if oracle.seen(case, call.i[a] - call.j[b])]
            logits = {b: oracle.logit(case, call, h, a, b) for b in seen}
            top = max(logits.values(), default=0.0)
            total = sum(math.exp(logit - top) for logit in logits.values())
            weights = [math.exp(logits[b] - top) / total if b in logits else 0.0 for b in range(len(call.j))]
            row = [0.0] * case.head_dim
            for b in seen:
                extra = oracle.value(case, call, h, a, b)
                for c in range(case.head_dim):
                    row[c] += weights[b] * (call.v[h][b][c] + extra[c])
            weights_of_head.append(weights)
            rows_of_head.append(row)
        probabilities.append(weights_of_head)
        outputs.append(rows_of_head)
    return probabilities, outputs
