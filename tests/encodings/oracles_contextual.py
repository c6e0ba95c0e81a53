"""Logits that depend on content and position: the formulas as loops, in float64."""

from tests.encodings.oracles import Oracle

ORACLES: dict[str, Oracle] = {}
