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
    features: Rows | None = None


def dot(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def plain(case: Case, call: Call, h: int, a: int, b: int) -> float:
    return dot(call.q[h][a], call.k[h][b]) / math.sqrt(case.head_dim)


def simple_bias(case: Case, call: Call, h: int, a: int, b: int) -> float:
    last = case.options["max_length"] - 1
    row = min(max(call.j[b] - call.i[a], -last), last) + last
    return plain(case, call, h, a, b) + float(case.weights["distance_weight"][row][h])


def gated_bias(case: Case, call: Call, h: int, a: int, b: int) -> float:
    bias = simple_bias(case, call, h, a, b) - plain(case, call, h, a, b)
    gate = 1 / (1 + math.exp(-case.weights["gate"][h])) * math.exp(case.weights["log_scale"][h])
    return plain(case, call, h, a, b) + gate * bias


def t5(case: Case, call: Call, h: int, a: int, b: int) -> float:
    n, buckets, base = call.i[a] - call.j[b], case.options["num_buckets"], 0
    if case.role == "decoder":
        n = max(n, 0)
    else:
        buckets //= 2
        base = buckets if call.j[b] > call.i[a] else 0
        n = abs(n)
    exact = buckets // 2
    row = n
    if n >= exact:
        share = math.log(n / exact) / math.log(case.options["max_distance"] / exact)
        row = min(buckets - 1, exact + math.floor(share * (buckets - exact)))
    scale = 1 / math.sqrt(case.head_dim) if case.options["scale"] is None else case.options["scale"]
    return float(scale * dot(call.q[h][a], call.k[h][b]) + case.weights["bucket_weight"][base + row][h])


def alibi_slope(h: int, heads: int, max_bias: float) -> float:
    """The h-th slope (from 0): powers of two first, then every second slope of twice as many heads."""
    power = 1
    while 2 * power <= heads:
        power *= 2
    if h < power:
        return float(2 ** (-max_bias * (h + 1) / power))
    return float(2 ** (-max_bias * (2 * (h - power) + 1) / (2 * power)))


def alibi(case: Case, call: Call, h: int, a: int, b: int) -> float:
    if case.options["learned"]:
        slope = math.exp(case.weights["log_slopes"][h])
    else:
        slope = alibi_slope(h, case.heads, case.options["max_bias"])
    return plain(case, call, h, a, b) - slope * abs(call.i[a] - call.j[b])


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


@dataclass(frozen=True)
class Oracle:
    """The formula of one encoding, the options to try it with, and what kind of encoding it is."""

    logit: Callable[[Case, Call, int, int, int], float] = plain
    value: Callable[[Case, Call, int, int, int], list[float]] = no_value
    """What is added to v_j for one pair."""
    embed: Callable[[Case, list[float], int], list[float]] = unchanged
    variants: list[dict[str, Any]] = field(default_factory=lambda: [{}])
    shift_invariant: bool = True
    """Whether adding one number to all positions leaves the attention as it is."""
    mirror_blind: bool = False
    """Whether an encoder with this encoding takes a sequence for its mirror image."""


ORACLES: dict[str, Oracle] = {
    "none": Oracle(mirror_blind=True),
    "simple_bias": Oracle(simple_bias, variants=[{}, {"max_length": 4}, {"init": "zeros"}, {"max_length": 1}]),
    "gated_bias": Oracle(gated_bias, variants=[{}, {"max_length": 4}, {"init": "zeros"}]),
    "t5": Oracle(t5, variants=[{}, {"num_buckets": 8, "max_distance": 20}, {"scale": 1.0}, {"num_buckets": 4}]),
    "alibi": Oracle(alibi, variants=[{}, {"max_bias": 16.0}, {"learned": True}], mirror_blind=True),
}


def attention(case: Case, oracle: Oracle, call: Call) -> tuple[Rows, Rows]:
    """Probabilities [head][query][key] and outputs [head][query][channel]; nothing to see gives zeros."""
    probabilities, outputs = [], []
    for h in range(case.heads):
        weights_of_head, rows_of_head = [], []
        for a in range(len(call.i)):
            seen = [b for b in range(len(call.j)) if call.keep[a][b]]
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
