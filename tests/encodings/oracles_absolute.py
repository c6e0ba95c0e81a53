"""Absolute encodings, samplers and compositions: the formulas as loops, in float64."""

import math
from collections.abc import Callable

from relformer.registry import encodings
from tests.encodings.oracles import Call, Case, Oracle, no_value, plain, wave

WORD = 1
"""The token that stands at every place of the embedded input."""


def sinusoidal(case: Case, x: list[float], t: int) -> list[float]:
    if case.options.get("inject") == "qk" or case.options.get("table") == "none":
        return x
    layout, base = case.options.get("layout", "interleaved"), case.options.get("base", 10000.0)
    row = wave(t, case.width, layout, base)
    if "log_frequency" in case.weights:
        row, half = [0.0] * case.width, case.width // 2
        for c, log_frequency in enumerate(case.weights["log_frequency"]):
            sine, cosine = (2 * c, 2 * c + 1) if layout == "interleaved" else (c, half + c)
            row[sine], row[cosine] = math.sin(t * math.exp(log_frequency)), math.cos(t * math.exp(log_frequency))
    alpha = case.weights["amplitude"][0] if "amplitude" in case.weights else 1.0
    return [x[c] + alpha * row[c] for c in range(case.width)]


def learned_row(case: Case, t: int) -> list[float]:
    table = case.weights["position_weight"]
    n, how = len(table), case.options.get("extend", "error")
    if how == "interpolate":
        place = t * (n - 1) / (case.options["extend_to"] - 1)
        low = min(int(place), n - 2)
        share = place - low
        return [(1 - share) * table[low][c] + share * table[low + 1][c] for c in range(case.width)]
    if how == "hierarchical":
        u = [[(table[r][c] - 0.4 * table[0][c]) / 0.6 for c in range(case.width)] for r in range(n)]
        return [0.4 * u[t // n][c] + 0.6 * u[t % n][c] for c in range(case.width)]
    return list(table[t])


def learned(case: Case, x: list[float], t: int) -> list[float]:
    if case.options.get("inject") == "qk":
        return x
    return [x[c] + learned_row(case, t)[c] for c in range(case.width)]


def multiplicative(case: Case, x: list[float], t: int) -> list[float]:
    return [x[c] * (1 + learned_row(case, t)[c]) for c in range(case.width)]


def complex_order(case: Case, x: list[float], t: int) -> list[float]:
    table, half = case.weights["omega"], case.width // 2
    row = table[WORD] if len(table) > 1 else table[0]
    out = [0.0] * case.width
    for c in range(half):
        turned = complex(x[c], x[half + c]) * complex(math.cos(row[c % len(row)] * t), math.sin(row[c % len(row)] * t))
        out[c], out[half + c] = turned.real, turned.imag
    return out


def parts(case: Case) -> list[tuple[Oracle, Case]]:
    from tests.encodings.all_oracles import ORACLES as ALL

    found = []
    for number, part in enumerate(case.options["parts"]):
        prefix = f"parts.{number}."
        weights = {key.removeprefix(prefix): value for key, value in case.weights.items() if key.startswith(prefix)}
        defaults = {key: option.default for key, option in encodings[part["name"]].options().items()}
        options = defaults | {key: value for key, value in part.items() if key != "name"}
        sub = Case(case.heads, case.head_dim, case.width, case.role, options, weights)
        found.append((ALL[part["name"]], sub))
    return found


def compose(case: Case, call: Call, h: int, a: int, b: int) -> float:
    """The logits of the parts, each beside the plain product of which every one holds a copy."""
    product = plain(case, call, h, a, b)
    return product + sum(oracle.logit(sub, call, h, a, b) - product for oracle, sub in parts(case))


def compose_value(case: Case, call: Call, h: int, a: int, b: int) -> list[float]:
    values = [oracle.value(sub, call, h, a, b) for oracle, sub in parts(case)]
    return [sum(column) for column in zip(*values, no_value(case, call, h, a, b), strict=True)]


def compose_embed(case: Case, x: list[float], t: int) -> list[float]:
    for oracle, sub in parts(case):
        embed: Callable[[Case, list[float], int], list[float]] = oracle.embed
        x = embed(sub, x, t)
    return x


ORACLES: dict[str, Oracle] = {
    "sinusoidal": Oracle(
        embed=sinusoidal,
        variants=[
            {},
            {"layout": "concat"},
            {"layout": "fairseq"},
            {"base": 100.0},
            {"scale": "learned"},
            {"frequencies": "learned", "layout": "concat"},
            {"inject": "qk"},
        ],
    ),
    "learned": Oracle(
        embed=learned,
        variants=[
            {},
            {"max_length": 200, "init_std": 0.02},
            {"max_length": 12, "extend": "hierarchical", "extend_to": 144},
            {"max_length": 12, "extend": "interpolate", "extend_to": 120},
            {"inject": "qk"},
            {"also_in_cross_value": True},
        ],
    ),
    "multiplicative": Oracle(embed=multiplicative, variants=[{}, {"max_length": 200, "init_std": 0.02}]),
    "complex": Oracle(embed=complex_order, variants=[{}, {"frequencies": "word"}, {"frequencies": "channel"}]),
    "shape": Oracle(embed=sinusoidal, variants=[{}, {"max_shift": 3, "eval_shift": "zero"}, {"table": "none"}]),
    "randomized": Oracle(embed=sinusoidal, variants=[{}, {"rows": "sample", "eval": "first"}, {"table": "none"}]),
    "compose": Oracle(
        compose,
        compose_value,
        compose_embed,
        variants=[
            {},
            {"parts": [{"name": "sinusoidal"}, {"name": "shaw", "max_distance": 2}]},
            {"parts": [{"name": "simple_bias", "max_length": 4}, {"name": "rope", "fraction": 0.5}]},
        ],
    ),
}
