"""Additive biases: the formulas as loops, in float64."""

from tests.encodings.oracles import Oracle

ORACLES: dict[str, Oracle] = {}
