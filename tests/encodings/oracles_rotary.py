"""Rotary encodings: the formulas as loops, in float64."""

import math
from typing import Any

from tests.encodings.oracles import Call, Case, Oracle, dot

PLANNED = 1000
"""The length for which the tests' spans are planned."""
SHORT, LONG = [1.0, 1.1, 1.2, 1.3], [1.0, 2.0, 3.0, 4.5]
SCALINGS: list[dict[str, Any]] = [
    {"type": "linear", "factor": 4.0},
    {"type": "ntk", "factor": 4.0},
    {"type": "dynamic_ntk", "original_length": 100},
    {"type": "dynamic_ntk", "original_length": 999, "factor": 8.0},
    {"type": "yarn", "factor": 8.0, "original_length": 40},
    {"type": "yarn", "factor": 8.0, "original_length": 40, "truncate": False, "beta_fast": 8.0, "beta_slow": 2.0},
    {"type": "yarn", "factor": 4.0, "original_length": 512, "mscale": 0.7, "mscale_all_dim": 0.4},
    {"type": "yarn", "factor": 4.0, "original_length": 3, "attention_factor": 1.5},
    {"type": "llama3", "original_length": 64},
    {"type": "llama3", "original_length": 64, "factor": 3.0, "low_freq_factor": 0.5, "high_freq_factor": 2.0},
    {"type": "longrope", "factor": 4.0, "original_length": 100, "short_factors": SHORT, "long_factors": LONG},
    {"type": "longrope", "factor": 4.0, "original_length": 1000, "short_factors": SHORT, "long_factors": LONG},
]
DEFAULTS = {
    "type": "none",
    "attention_factor": None,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": True,
    "mscale": 1.0,
    "mscale_all_dim": 0.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}


def settings(case: Case) -> dict[str, Any]:
    """The scaling as a dict, whether the case has options for it or none."""
    given = case.options.get("scaling", {})
    chosen = DEFAULTS | (given if isinstance(given, dict) else {})
    return {"factor": {"dynamic_ntk": 2.0, "llama3": 8.0}.get(chosen["type"])} | chosen


def speed(case: Case, c: int, rotary: int) -> float:
    """The angle by which pair c turns from one position to the next."""
    base, scaling = case.options["base"], settings(case)
    kind, factor, trained = scaling["type"], scaling["factor"], scaling.get("original_length")
    original = base ** (-2 * c / rotary)
    if kind == "linear":
        return float(original / factor)
    if kind in ("ntk", "dynamic_ntk"):
        if kind == "dynamic_ntk":
            factor = 1.0 if trained >= PLANNED else factor * PLANNED / trained - (factor - 1)
        return float((base * factor ** (rotary / (rotary - 2))) ** (-2 * c / rotary))
    if kind == "yarn":
        ends = [
            rotary * math.log(trained / (scaling[beta] * 2 * math.pi)) / (2 * math.log(base))
            for beta in ("beta_fast", "beta_slow")
        ]
        if scaling["truncate"]:
            ends = [math.floor(ends[0]), math.ceil(ends[1])]
        first, last = (max(0, min(rotary - 1, end)) for end in ends)
        last = last + 0.001 if first == last else last
        t = max(0.0, min(1.0, (c - first) / (last - first)))
        return float(original * (1 - t) + original / factor * t)
    if kind == "llama3":
        wavelength = 2 * math.pi / original
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        if wavelength < trained / high:
            return float(original)
        if wavelength > trained / low:
            return float(original / factor)
        blend = (trained / wavelength - low) / (high - low)
        return float((1 - blend) * original / factor + blend * original)
    if kind == "longrope":
        return float(original / scaling["short_factors" if trained >= PLANNED else "long_factors"][c])
    return float(original)


def magnitude(case: Case) -> float:
    scaling = settings(case)
    if scaling["attention_factor"] is not None:
        return float(scaling["attention_factor"])
    if scaling["type"] == "yarn":
        above, below = (1 + 0.1 * scaling[m] * math.log(scaling["factor"]) for m in ("mscale", "mscale_all_dim"))
        return above / below
    if scaling["type"] == "longrope":
        return math.sqrt(1 + math.log(scaling["factor"]) / math.log(scaling["original_length"]))
    return 1.0


def turned(case: Case, x: list[float], t: int, size: list[float] | None = None) -> list[float]:
    """One head's channels after the rotation to position t, pair c multiplied by size[c]."""
    rotary = round(case.options["fraction"] * case.head_dim)
    out = list(x)
    for c in range(rotary // 2):
        first, second = (2 * c, 2 * c + 1) if case.options["layout"] == "interleaved" else (c, c + rotary // 2)
        angle, m = t * speed(case, c, rotary), magnitude(case) * (size[c] if size else 1.0)
        out[first] = m * (x[first] * math.cos(angle) - x[second] * math.sin(angle))
        out[second] = m * (x[first] * math.sin(angle) + x[second] * math.cos(angle))
    return out


def rope(case: Case, call: Call, h: int, a: int, b: int) -> float:
    query, key = turned(case, call.q[h][a], call.i[a]), turned(case, call.k[h][b], call.j[b])
    return dot(query, key) / math.sqrt(case.head_dim)


def rope_keynorm(case: Case, call: Call, h: int, a: int, b: int) -> float:
    key = call.k[h][b]
    length = max(math.sqrt(dot(key, key)), 1e-6)
    return dot(turned(case, call.q[h][a], call.i[a]), turned(case, [x / length for x in key], call.j[b]))


def xpos(case: Case, call: Call, h: int, a: int, b: int) -> float:
    """The decay put on the query alone, by distance: no anchor."""
    rotary, gamma = round(case.options["fraction"] * case.head_dim), case.options["gamma"]
    steps = (call.i[a] - call.j[b]) / case.options["scale_base"]
    decay = [((2 * c / rotary + gamma) / (1 + gamma)) ** steps for c in range(rotary // 2)]
    query = turned(case, call.q[h][a], call.i[a], decay)
    return dot(query, turned(case, call.k[h][b], call.j[b])) / math.sqrt(case.head_dim)


def polar(case: Case, call: Call, h: int, a: int, b: int) -> float:
    total = 0.0
    for c in range(case.head_dim):
        phase = max(-2 * math.pi, min(0.0, case.weights["key_phase"][h][c]))
        angle = (call.i[a] - call.j[b]) * case.options["base"] ** (-c / case.head_dim) - phase
        q, k = math.log1p(math.exp(call.q[h][a][c])), math.log1p(math.exp(call.k[h][b][c]))
        total += q * k * math.cos(angle)
    return total / math.sqrt(case.head_dim)


PLAIN: list[dict[str, Any]] = [{}, {"layout": "half"}, {"fraction": 0.5}, {"base": 50.0, "layout": "half"}]
YARN = {"type": "yarn", "factor": 8.0, "original_length": 40}
ORACLES: dict[str, Oracle] = {
    "rope": Oracle(
        rope,
        variants=[*PLAIN, *({"scaling": s} for s in SCALINGS), {"fraction": 0.5, "layout": "half", "scaling": YARN}],
    ),
    "rope_bias": Oracle(rope, variants=PLAIN),
    "rope_keynorm": Oracle(rope_keynorm, variants=[*PLAIN, {"scaling": YARN}]),
    "xpos": Oracle(xpos, variants=[*PLAIN, {"scale_base": 16.0}, {"gamma": 2.0, "scale_base": 40.0}]),
    "polar": Oracle(polar, variants=[{}, {"base": 50.0}, {"init": "uniform"}]),
}
