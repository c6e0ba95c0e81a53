"""Additive biases: the formulas as loops, in float64."""

import math
from typing import Any

from tests.encodings.oracles import Call, Case, Oracle, dot, plain


def untied(case: Case, call: Call, h: int, a: int, b: int, bias: float) -> float:
    """The bias, unless the first token is apart and one of the two."""
    if not case.options["untie_first"]:
        return bias
    if call.i[a] == 0 and case.role != "decoder":
        return float(case.weights["from_first"][h])
    return float(case.weights["to_first"][h]) if call.j[b] == 0 else bias


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def softplus(x: float) -> float:
    return math.log(1 + math.exp(x))


def table_row(case: Case, call: Call, a: int, b: int) -> int:
    last = int(case.options["max_length"]) - 1
    return min(max(call.j[b] - call.i[a], -last), last) + last


def simple_bias(case: Case, call: Call, h: int, a: int, b: int) -> float:
    bias = float(case.weights["distance_weight"][table_row(case, call, a, b)][h])
    return plain(case, call, h, a, b) + untied(case, call, h, a, b, bias)


def gated_table(case: Case, call: Call, h: int, a: int, b: int) -> float:
    """W of one pair, before gate and scale."""
    row, last, side = table_row(case, call, a, b), int(case.options["max_length"]) - 1, 0.0
    if case.options["split"] == "distance_direction" and case.role != "decoder":
        row = abs(row - last)
        if call.i[a] != call.j[b]:
            side = case.weights["direction_weight"][0 if call.j[b] < call.i[a] else 1][h]
    if case.options["rank"] is not None:
        factors = case.weights["head_factor"]
        return side + sum(case.weights["row_factor"][row][r] * factors[r][h] for r in range(case.options["rank"]))
    name = "magnitude_weight" if "magnitude_weight" in case.weights else "distance_weight"
    return side + float(case.weights[name][row][h])


def gated_bias(case: Case, call: Call, h: int, a: int, b: int) -> float:
    logit, bias, gate = plain(case, call, h, a, b), gated_table(case, call, h, a, b), case.weights["gate"][h]
    if case.options["scale"]:
        bias *= math.exp(case.weights["log_scale"][h])
    if case.options["gate"] == "content":
        gate += dot(case.weights["gate_weight"][h], call.q[h][a])
    bias *= sigmoid(gate)
    return logit * (1 + bias) + bias if case.options["gate"] == "score" else logit + bias


def bucket_bias(case: Case, call: Call, h: int, a: int, b: int, weights: Any) -> float:
    """T5's table at the bucket of a pair."""
    n, buckets, base = call.i[a] - call.j[b], case.options["num_buckets"], 0
    if case.role == "decoder":
        n = max(n, 0)
    else:
        buckets //= 2
        base = buckets if call.j[b] > call.i[a] else 0
        n = abs(n)
    exact, row = case.options.get("exact_buckets") or buckets // 2, n
    if n >= exact:
        share = math.log(n / exact) / math.log(case.options["max_distance"] / exact)
        growth = buckets - exact - (1 if case.options.get("log_buckets") == "article" else 0)
        row = min(buckets - 1, exact + math.floor(share * growth))
    return float(weights[base + row][h])


def t5(case: Case, call: Call, h: int, a: int, b: int) -> float:
    scale = 1 / math.sqrt(case.head_dim) if case.options["scale"] is None else case.options["scale"]
    bias = bucket_bias(case, call, h, a, b, case.weights["bucket_weight"])
    return float(scale * dot(call.q[h][a], call.k[h][b])) + untied(case, call, h, a, b, bias)


def alibi_slope(h: int, heads: int, max_bias: float) -> float:
    """The h-th slope (from 0): powers of two first, then every second slope of twice as many heads."""
    power = 1
    while 2 * power <= heads:
        power *= 2
    if h < power:
        return float(2 ** (-max_bias * (h + 1) / power))
    return float(2 ** (-max_bias * (2 * (h - power) + 1) / (2 * power)))


def alibi_bias(case: Case, call: Call, h: int, a: int, b: int) -> float:
    biased = case.options["biased_heads"] or case.heads
    if h >= biased:
        return 0.0
    distance = call.i[a] - call.j[b]
    sided = case.options["form"] == "asymmetric" and case.role != "decoder"
    if case.options["learned"]:
        name = "log_future_slopes" if sided and distance < 0 else "log_slopes"
        return -math.exp(case.weights[name][h]) * abs(distance)
    row = biased - 1 - h if sided and distance < 0 else h
    slope = (
        case.options["slopes"][row] if case.options["slopes"] else alibi_slope(row, biased, case.options["max_bias"])
    )
    return -float(slope) * abs(distance)


def alibi(case: Case, call: Call, h: int, a: int, b: int) -> float:
    return plain(case, call, h, a, b) + untied(case, call, h, a, b, alibi_bias(case, call, h, a, b))


def kerple_side(case: Case, call: Call, a: int, b: int) -> str:
    split = case.options["split"] and case.role != "decoder"
    return "future" if split and call.j[b] > call.i[a] else "past"


def kerple_log(case: Case, call: Call, h: int, a: int, b: int) -> float:
    side = kerple_side(case, call, a, b)
    r1, r2 = (softplus(case.weights[f"{side}.kerple_log_r{n}"][h]) for n in (1, 2))
    return plain(case, call, h, a, b) - r1 * math.log(1 + r2 * abs(call.i[a] - call.j[b]))


def kerple_power(case: Case, call: Call, h: int, a: int, b: int) -> float:
    side = kerple_side(case, call, a, b)
    r1 = softplus(case.weights[f"{side}.kerple_power_r1"][h])
    r2 = 2 * sigmoid(case.weights[f"{side}.kerple_power_r2"][h])
    return plain(case, call, h, a, b) - float(r1 * abs(call.i[a] - call.j[b]) ** r2)


def sandwich(case: Case, call: Call, h: int, a: int, b: int) -> float:
    half, first = case.options["dim"] // 2, case.options["first"]
    total = sum(math.cos((call.i[a] - call.j[b]) * 10000 ** (-c / half)) for c in range(first, first + half))
    return plain(case, call, h, a, b) + (total - half) / (8 * (h + 1) / case.heads)


def perceptron(case: Case, name: str, x: list[float], activation: Any) -> list[float]:
    layer = 0
    while f"{name}.weights.{layer}" in case.weights:
        inputs = x if layer == 0 else [activation(value) for value in x]
        weight, bias = case.weights[f"{name}.weights.{layer}"], case.weights[f"{name}.biases.{layer}"]
        x = [dot(row, inputs) + offset for row, offset in zip(weight, bias, strict=True)]
        layer += 1
    return x


def dynamic_bias(case: Case, call: Call, h: int, a: int, b: int) -> float:
    x = float(call.i[a] - call.j[b])
    if case.options["log_distance"]:
        x = math.copysign(math.log(1 + abs(x)), x)
    return plain(case, call, h, a, b) + perceptron(case, "distance_mlp", [x], lambda y: y * sigmoid(y))[h]


def fire(case: Case, call: Call, h: int, a: int, b: int) -> float:
    i, j, c = call.i[a], call.j[b], abs(case.weights["fire_c"])
    furthest = max(i, case.options["threshold"] * abs(case.weights["fire_stretch"]))
    if case.role != "decoder":
        furthest = max(furthest, j)
    x = [math.log(1 + c * abs(i - j)) / (math.log(1 + c * furthest) + 1e-6)]
    if case.options["signed"] and case.role != "decoder":
        x.append((i > j) - (i < j))
    return plain(case, call, h, a, b) + perceptron(case, "fire_mlp", x, lambda y: max(y, 0.0))[h]


def absolute_bias(case: Case, call: Call, h: int, a: int, b: int) -> float:
    return plain(case, call, h, a, b) + float(case.weights["pair_weight"][h][call.i[a]][call.j[b]])


def rope_gau(case: Case, call: Call, h: int, a: int, b: int) -> float:
    """Both vectors turned to their positions as complex numbers, then multiplied."""
    first, second, total = case.weights["gau_a"][h], case.weights["gau_b"][h], 0.0
    for c in range(case.head_dim // 2):
        frequency = case.options["base"] ** (-2 * c / case.head_dim)
        x, y = complex(*first[2 * c : 2 * c + 2]), complex(*second[2 * c : 2 * c + 2])
        at_i, at_j = (complex(math.cos(t * frequency), math.sin(t * frequency)) for t in (call.i[a], call.j[b]))
        total += (x * at_i * (y * at_j).conjugate()).real
    return plain(case, call, h, a, b) + total


def tupe_vector(case: Case, h: int, row: int, side: str) -> list[float]:
    """One head of a position's projected row; `side` is query or key."""
    other = side == "key" and case.role == "cross"
    p = case.weights["tupe_key_positions" if other else "tupe_positions"][row]
    mean = sum(p) / case.width
    deviation = math.sqrt(sum((x - mean) ** 2 for x in p) / case.width + 1e-5)
    gain, offset = case.weights["tupe_norm_weight"], case.weights["tupe_norm_bias"]
    p = [(x - mean) / deviation * g + o for x, g, o in zip(p, gain, offset, strict=True)]
    weight, bias = case.weights[f"tupe_{side}_weight"], case.weights[f"tupe_{side}_bias"]
    return [dot(weight[c], p) + bias[c] for c in range(h * case.head_dim, (h + 1) * case.head_dim)]


def tupe_a(case: Case, call: Call, h: int, a: int, b: int) -> float:
    terms = case.options["terms"] or ["c2c", "p2p"]
    logit = dot(call.q[h][a], call.k[h][b]) if "c2c" in terms else 0.0
    if "p2p" in terms:
        i, j, cls = call.i[a], call.j[b], case.options["cls"]
        rows = (i + 1, j + 1) if cls else (i, j)
        if cls and i == 0:
            rows = (0, 0)
        elif cls and j == 0:
            rows = (1, 1)
        logit += dot(tupe_vector(case, h, rows[0], "query"), tupe_vector(case, h, rows[1], "key"))
    return logit / math.sqrt(len(terms) * case.head_dim)


def tupe_r(case: Case, call: Call, h: int, a: int, b: int) -> float:
    bias = bucket_bias(case, call, h, a, b, case.weights["relative.bucket_weight"])
    if case.options["cls"] and call.i[a] == 0 and case.role != "decoder":
        bias = case.weights["relative.from_first"][h]
    elif case.options["cls"] and call.j[b] == 0:
        bias = case.weights["relative.to_first"][h]
    return tupe_a(case, call, h, a, b) + float(bias)


def window(case: Case, distance: int) -> bool:
    return distance <= case.options["width"] and (case.role == "decoder" or -distance <= case.options["width"])


def forgetting(case: Case, call: Call, h: int, a: int, b: int) -> float:
    i, j, total = call.i[a], call.j[b], 0.0
    for at, x in zip(call.j, call.x, strict=True):
        ahead = j > i
        if i <= at < j if ahead else j < at <= i:
            gate = h + (case.heads if ahead else 0)
            total -= softplus(-(dot(case.weights["forget_weight"][gate], x) + case.weights["forget_bias"][gate]))
    return plain(case, call, h, a, b) + total


TABLE: list[dict[str, Any]] = [{}, {"max_length": 4}, {"init": "zeros"}]

ORACLES: dict[str, Oracle] = {
    "simple_bias": Oracle(simple_bias, variants=[*TABLE, {"max_length": 1}, {"untie_first": True}]),
    "gated_bias": Oracle(
        gated_bias,
        variants=[
            *TABLE,
            {"gate": "content"},
            {"gate": "score", "scale": False},
            {"split": "distance_direction", "max_length": 5},
            {"rank": 2},
            {"gate": "content", "split": "distance_direction", "rank": 1},
        ],
    ),
    "t5": Oracle(
        t5,
        variants=[
            {},
            {"num_buckets": 8, "max_distance": 20},
            {"scale": 1.0},
            {"num_buckets": 4},
            {"exact_buckets": 3},
            {"num_buckets": 12, "log_buckets": "article", "max_distance": 21},
            {"untie_first": True},
        ],
    ),
    "alibi": Oracle(
        alibi,
        variants=[
            {},
            {"max_bias": 16.0},
            {"learned": True},
            {"slopes": [0.5, 0.0, 2.0]},
            {"biased_heads": 2},
            {"form": "asymmetric"},
            {"form": "asymmetric", "learned": True, "biased_heads": 2},
            {"untie_first": True},
        ],
        mirror_blind=True,
    ),
    "kerple_log": Oracle(kerple_log, variants=[{}, {"split": True}], mirror_blind=True),
    "kerple_power": Oracle(kerple_power, variants=[{}, {"split": True}], mirror_blind=True),
    "sandwich": Oracle(sandwich, variants=[{}, {"first": 1}, {"dim": 16}], mirror_blind=True),
    "dynamic_bias": Oracle(dynamic_bias, variants=[{}, {"log_distance": False}, {"depth": 1, "hidden": 9}]),
    "fire": Oracle(
        fire,
        variants=[{}, {"threshold": 4.0}, {"signed": False, "threshold": 3.0}, {"hidden": 5, "c": 0.7}],
        shift_invariant=False,
    ),
    "absolute_bias": Oracle(
        absolute_bias, variants=[{"max_length": 128}, {"max_length": 107, "init": "zeros"}], shift_invariant=False
    ),
    "rope_gau": Oracle(rope_gau, variants=[{}, {"base": 50.0}, {"init_std": 0.5}]),
    "tupe_a": Oracle(tupe_a, variants=[{"max_length": 120}, {"cls": True}, {"terms": ["p2p"]}], shift_invariant=False),
    "tupe_r": Oracle(
        tupe_r,
        variants=[
            {"max_length": 120},
            {"cls": True, "num_buckets": 8, "max_distance": 20},
            {"terms": ["c2c"]},
            {"terms": ["c2c"], "cls": True},
        ],
        shift_invariant=False,
    ),
    "window": Oracle(variants=[{}, {"width": 2}, {"width": 0}], seen=window, mirror_blind=True),
    "forgetting": Oracle(forgetting, variants=[{}, {"gate_bias": 0.0}]),
}
