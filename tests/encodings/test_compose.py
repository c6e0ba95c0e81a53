"""Several encodings in one slot: each adds what it adds alone, once, through whichever hook its options make it use."""

from itertools import permutations
from typing import Any

import pytest
import torch
from torch import Tensor

from relformer.attention.call import Call
from relformer.encodings import PositionalEncoding
from tests.encodings.calls import WIDTH, enliven, make, qkv, randn, ready

PARTS: tuple[dict[str, Any], ...] = (
    {"name": "alibi"},
    {"name": "t5", "untie_first": True},
    {"name": "simple_bias", "untie_first": True},
    {"name": "gated_bias", "gate": "content"},
    {"name": "tupe_r", "cls": True},
    {"name": "tupe_a"},
    {"name": "shaw"},
)


def added(encoding: PositionalEncoding) -> Tensor:
    """What an encoding adds to the logits (B, H, Q, K), content apart."""
    q, k, v = qkv(5, 5)
    features = encoding.features(randn(2, 5, WIDTH)) if encoding.acts("features") else None
    call = Call(q, k, v, encoding, ready(encoding, range(5), range(5)), (q, k), features)
    return call.logits() - q @ k.mT * call.scale


@torch.no_grad()
@pytest.mark.parametrize("role", ["encoder", "decoder"])
@pytest.mark.parametrize("pair", list(permutations(PARTS, 2)), ids=lambda pair: "-".join(part["name"] for part in pair))
def test_parts_add_up(pair: tuple[dict[str, Any], ...], role: str) -> None:
    if {part["name"] for part in pair} <= {"tupe_r", "tupe_a"}:
        pytest.skip("both set the multiplier of q·k")
    composed = make("compose", role, parts=list(pair))
    enliven(composed)
    alone = [added(part) for part in composed.parts]  # type: ignore[arg-type,union-attr]
    assert all(term.abs().max() > 0.1 for term in alone)
    torch.testing.assert_close(added(composed), sum(alone), rtol=1e-4, atol=1e-4)


def test_a_part_sets_the_multiplier_where_it_is_told_to() -> None:
    assert make("compose", parts=[{"name": "t5"}, {"name": "tupe_a"}]).scale(8) == make("tupe_a").scale(8) != 8**-0.5
    assert make("compose", parts=[{"name": "tener", "scale": None}, {"name": "tupe_a"}]).scale(8) == 16**-0.5
    assert make("compose", parts=[{"name": "t5", "scale": 1.0}, {"name": "alibi"}]).scale(8) == 1.0
