"""GAU's rotary bias is that of two vectors turned by rope."""

import pytest
import torch

from relformer.errors import UserError
from tests.encodings.calls import HEADS, enliven, make, pair_bias, randn, ready


def test_bias_is_the_product_of_two_vectors_turned_by_rope() -> None:
    encoding, rope = make("rope_gau"), make("rope")
    enliven(encoding)
    span = ready(rope, range(40, 47), range(3, 9))
    a, b = encoding.gau_a[None, :, None].expand(-1, -1, 7, -1), encoding.gau_b[None, :, None].expand(-1, -1, 6, -1)
    turned = rope.query(a, span) @ rope.key(b, span).mT
    torch.testing.assert_close(pair_bias(encoding, range(40, 47), range(3, 9)), turned, rtol=1e-4, atol=1e-5)


def test_queries_and_keys_are_left_alone() -> None:
    encoding, x = make("rope_gau"), randn(1, HEADS, 4, 8)
    span = ready(encoding, range(4), range(4))
    assert encoding.query(x, span) is x
    assert encoding.key(x, span) is x


def test_starts_near_zero() -> None:
    assert 0 < pair_bias(make("rope_gau"), range(20), range(20)).abs().max() < 0.02


def test_an_odd_head_is_refused() -> None:
    with pytest.raises(UserError, match=r"a head has 7; choose model\.width and model\.heads"):
        make("rope_gau", head_dim=7)
