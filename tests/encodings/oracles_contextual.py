"""Logits that depend on content and position: the formulas as loops, in float64."""

import math

from tests.encodings.oracles import Call, Case, Oracle, dot, plain, wave


def transformer_xl(case: Case, call: Call, h: int, a: int, b: int) -> float:
    query, key, terms = call.q[h][a], call.k[h][b], case.options["terms"]
    distance, limit = call.i[a] - call.j[b], case.options["clamp_length"]
    if limit is not None:
        distance = min(max(distance, -limit), limit)
    total = 0.0
    if "c2c" in terms:
        total += dot(query, key)
    if "p2c" in terms:
        total += dot(case.weights["u"][h], key)
    if "c2p" in terms or "p2p" in terms:
        row = wave(distance, case.width, case.options["layout"])
        projected = [dot(channel, row) for channel in case.weights["relative_weight"][h]]
        total += dot(query, projected) if "c2p" in terms else 0.0
        total += dot(case.weights["v"][h], projected) if "p2p" in terms else 0.0
    return total / math.sqrt(case.head_dim)


def tener(case: Case, call: Call, h: int, a: int, b: int) -> float:
    query, key, terms = call.q[h][a], call.k[h][b], case.options["terms"]
    ahead = wave(call.j[b] - call.i[a], case.head_dim, "fairseq")
    back = wave(call.i[a] - call.j[b], case.head_dim, "fairseq")
    parts = {
        "c2c": lambda: dot(query, key),
        "c2p": lambda: dot(query, ahead),
        "p2c": lambda: dot(case.weights["tener_u"][h], key),
        "p2p": lambda: dot(case.weights["tener_w"][h], ahead),
    }
    total = sum(parts[term]() for term in terms)
    if case.options["key_term"]:
        total += dot(key, back)
    scale = case.options["scale"]
    return total / math.sqrt(case.head_dim) if scale is None else total * float(scale)


def deberta_row(case: Case, distance: int) -> int:
    """Which of the 2s rows a distance reads."""
    far, size = case.options["max_distance"], case.options["position_buckets"]
    if size is None:
        return int(min(max(distance + far, 0), 2 * far - 1))
    n = min(abs(distance), far - 1)
    middle = size // 2
    if n > middle:
        share = math.log(n / middle) / math.log((far - 1) / middle)
        n = math.ceil(share * (middle - 1) - 1e-6) + middle  # ln is exact at the far end only up to rounding
    return int(min(max((n if distance > 0 else -n) + size, 0), 2 * size - 1))


def deberta_vector(case: Case, distance: int) -> list[float]:
    """The row of P, normed where the options say so."""
    row = case.weights["deberta_rows"][deberta_row(case, distance)]
    if not case.options["norm_embeddings"]:
        return list(row)
    mean = sum(row) / len(row)
    deviation = math.sqrt(sum((x - mean) ** 2 for x in row) / len(row) + 1e-7)
    shift = case.weights.get("deberta_shift", [0.0] * len(row))
    return [(x - mean) / deviation * g + s for x, g, s in zip(row, case.weights["deberta_gain"], shift, strict=True)]


def deberta(case: Case, call: Call, h: int, a: int, b: int) -> float:
    query, key, terms = call.q[h][a], call.k[h][b], case.options["terms"]
    distance, total = call.i[a] - call.j[b], 0.0
    if "c2c" in terms:
        total += dot(query, key)
    if "c2p" in terms:
        row = deberta_vector(case, distance)
        total += dot(query, [dot(channel, row) for channel in case.weights["deberta_key"][h]])
    if "p2c" in terms:
        row = deberta_vector(case, -distance if case.options["p2c_index"] == "paper" else distance)
        projected = [dot(channel, row) for channel in case.weights["deberta_query"][h]]
        bias = case.weights["deberta_query_bias"][h]
        total += dot(key, [x + c for x, c in zip(projected, bias, strict=True)])
    return total / math.sqrt(case.head_dim * len(terms))


def cope(case: Case, call: Call, h: int, a: int, b: int) -> float:
    rows = case.weights["count_rows"]
    count = 0.0
    for t in range(len(call.j)):
        if call.keep[a][t] and call.j[b] <= call.j[t] <= call.i[a]:
            count += 1 / (1 + math.exp(-plain(case, call, h, a, t)))
    count = min(count, len(rows) - 1)
    low, high = rows[math.floor(count)], rows[math.ceil(count)]
    share = count - math.floor(count)
    e = [(1 - share) * x + share * y for x, y in zip(low, high, strict=True)]
    return plain(case, call, h, a, b) + dot(call.q[h][a], e)


def shaw_vector(case: Case, call: Call, a: int, b: int, table: str) -> list[float]:
    """The row of one of the two tables that a pair reads, or zeros."""
    reach, ahead = int(case.options["max_distance"]), call.j[b] - call.i[a]
    if table not in case.weights or (case.options["zero_outside"] and abs(ahead) > reach):
        return [0.0] * case.head_dim
    return list(case.weights[table][min(max(ahead, -reach), reach) + reach])


def shaw(case: Case, call: Call, h: int, a: int, b: int) -> float:
    extra = dot(call.q[h][a], shaw_vector(case, call, a, b, "key_rows"))
    return plain(case, call, h, a, b) + extra / math.sqrt(case.head_dim)


def shaw_value(case: Case, call: Call, h: int, a: int, b: int) -> list[float]:
    return shaw_vector(case, call, a, b, "value_rows")


ORACLES: dict[str, Oracle] = {
    "transformer_xl": Oracle(
        transformer_xl,
        variants=[
            {},
            {"layout": "interleaved"},
            {"clamp_length": 3},
            {"terms": ["c2p", "p2p"]},
            {"terms": ["c2c", "c2p"]},
            {"terms": ["p2p", "p2c"]},
            {"terms": ["c2c"]},
        ],
    ),
    "xlnet": Oracle(
        transformer_xl, variants=[{}, {"layout": "interleaved"}, {"clamp_length": 3}, {"terms": ["c2c", "p2p"]}]
    ),
    "tener": Oracle(
        tener,
        variants=[
            {},
            {"key_term": False},
            {"scale": None},
            {"scale": 0.25, "terms": ["c2c", "c2p"]},
            {"terms": ["p2c", "p2p"], "scale": None},
            {"terms": ["c2c"], "key_term": False},
        ],
    ),
    "deberta": Oracle(
        deberta,
        variants=[
            {"max_distance": 3},
            {},
            {"max_distance": 3, "p2c_index": "paper"},
            {"max_distance": 5, "norm_embeddings": True},
            {"max_distance": 16, "position_buckets": 4},
            {"max_distance": 64, "position_buckets": 16, "p2c_index": "paper"},
            {"max_distance": 3, "terms": ["c2c", "c2p"], "norm_embeddings": True},
            {"max_distance": 3, "terms": ["p2c"]},
            {"max_distance": 3, "terms": ["c2c"]},
        ],
    ),
    "cope": Oracle(cope, variants=[{}, {"p_max": 2}, {"p_max": 4}]),
    "shaw": Oracle(
        shaw,
        shaw_value,
        variants=[
            {},
            {"max_distance": 2},
            {"keys": False},
            {"values": False},
            {"max_distance": 2, "zero_outside": True},
            {"max_distance": 0, "zero_outside": True},
        ],
    ),
}
