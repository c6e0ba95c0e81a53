"""xPos against x-transformers, its decay, and its anchor."""

import pytest
import torch
from torch import Tensor

from relformer.attention import attend
from relformer.encodings import PositionalEncoding, Positions
from relformer.errors import UserError
from relformer.model import ModelOptions
from relformer.model.slot import build_slot
from tests.encodings.calls import fixture, make, qkv, randn, ready
from tests.model.models import build, check_cache, node


def products(encoding: PositionalEncoding, q: Tensor, k: Tensor, at: Positions, keys_at: Positions) -> Tensor:
    span = ready(encoding, at, keys_at)
    return encoding.query(q, span) @ encoding.key(k, span).mT


def test_scores_of_x_transformers() -> None:
    case, encoding = fixture("xpos"), make("xpos")
    scores = products(encoding, case["q"], case["k"], range(7), range(7))
    torch.testing.assert_close(scores, case["scores"], rtol=0, atol=2e-5)


def test_both_sides_have_their_anchor_at_the_middle() -> None:
    case, encoding = fixture("xpos"), make("xpos")
    span = ready(encoding, range(7), range(7))
    torch.testing.assert_close(encoding.query(case["q"], span), case["q_out"], rtol=0, atol=2e-5)
    torch.testing.assert_close(encoding.key(case["k"], span), case["k_out"], rtol=0, atol=2e-5)


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_each_pair_decays_by_its_own_rate(layout: str) -> None:
    """A pair's share of the product is RoPE's times z_c^(distance / scale_base)."""
    options = {"layout": layout, "head_dim": 8}
    xpos, rope = make("xpos", scale_base=16.0, **options), make("rope", **options)
    q, k, _ = qkv(1, 1)
    for c in range(4):
        pair = [2 * c, 2 * c + 1] if layout == "interleaved" else [c, c + 4]
        only = torch.zeros(8)
        only[pair] = 1
        for distance in (0, 3, 40):
            at, keys_at = range(distance + 2, distance + 3), range(2, 3)
            expected = products(rope, q * only, k, at, keys_at) * ((2 * c / 8 + 0.4) / 1.4) ** (distance / 16)
            torch.testing.assert_close(products(xpos, q * only, k, at, keys_at), expected, rtol=1e-4, atol=1e-6)


def test_no_decay_is_rope() -> None:
    q, k, _ = qkv(6, 6)
    endless = make("xpos", scale_base=1e12)
    torch.testing.assert_close(
        products(endless, q, k, range(6), range(6)), products(make("rope"), q, k, range(6), range(6))
    )


def test_channels_that_do_not_turn_keep_their_size() -> None:
    encoding, q = make("xpos", fraction=0.5, scale_base=8.0), randn(2, 3, 6, 8)
    span = ready(encoding, range(50, 56), range(56))
    assert torch.equal(encoding.query(q, span)[..., 4:], q[..., 4:])
    assert not torch.allclose(encoding.query(q, span)[..., :4].norm(dim=-1), q[..., :4].norm(dim=-1), rtol=0.1)


def test_factors_stay_bounded_far_from_the_start() -> None:
    encoding, (q, k, v) = make("xpos"), qkv(6, 6)
    far = attend(q, k, v, encoding, ready(encoding, range(100_000, 100_006), range(100_000, 100_006)), causal=True)
    assert far.isfinite().all()


def test_each_row_of_sampled_positions_has_its_own_anchor() -> None:
    encoding, (q, k, _) = make("xpos", scale_base=4.0), qkv(6, 6)
    rows = torch.tensor([[0, 2, 3, 7, 8, 30], [100, 104, 105, 206, 221, 222]])
    together = products(encoding, q, k, rows, rows)
    for row in range(2):
        alone = products(encoding, q[row : row + 1], k[row : row + 1], rows[row : row + 1], rows[row : row + 1])
        assert torch.equal(together[row : row + 1], alone)


def test_the_cache_holds_raw_keys() -> None:
    assert make("xpos").keys == "before"
    check_cache(build("xpos", scale_base=2.0))


@pytest.mark.parametrize(
    ("role", "remedy"), [("encoder", "use encoding=rope decoder_encoding=xpos"), ("cross", "use cross_encoding=rope")]
)
def test_it_is_for_a_causal_decoder_alone(role: str, remedy: str) -> None:
    with pytest.raises(UserError, match=rf"^here=xpos can't serve .*: .*; {remedy}$"):
        build_slot(node("xpos"), role, "here", ModelOptions())  # type: ignore[arg-type]
