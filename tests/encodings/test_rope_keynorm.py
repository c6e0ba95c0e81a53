"""RoPE with normalised keys: what of a key counts, and what does not."""

import pytest
import torch

from relformer.attention import attend
from tests.encodings.calls import make, qkv, ready


@pytest.mark.parametrize("fraction", [1.0, 0.5])
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_keys_have_length_one_and_queries_their_own(fraction: float, layout: str) -> None:
    encoding, (q, k, _) = make("rope_keynorm", fraction=fraction, layout=layout), qkv(6, 6)
    span = ready(encoding, range(10, 16), range(6))
    torch.testing.assert_close(encoding.key(k, span).norm(dim=-1), torch.ones(2, 3, 6))
    torch.testing.assert_close(encoding.query(q, span).norm(dim=-1), q.norm(dim=-1))


def test_it_is_rope_without_the_root_for_keys_of_length_one() -> None:
    encoding, rope, (q, k, v) = make("rope_keynorm"), make("rope"), qkv(6, 6)
    assert encoding.scale(8) == 1.0
    unit = k / k.norm(dim=-1, keepdim=True)
    expected = attend(q * 8**0.5, unit, v, rope, ready(rope, range(6), range(6)))
    torch.testing.assert_close(attend(q, k, v, encoding, ready(encoding, range(6), range(6))), expected)


def test_a_longer_key_gains_nothing() -> None:
    encoding, (q, k, v) = make("rope_keynorm"), qkv(6, 6)
    span = ready(encoding, range(6), range(6))
    longer = k * torch.linspace(1, 9, 6)[:, None]
    torch.testing.assert_close(attend(q, longer, v, encoding, span), attend(q, k, v, encoding, span))


@pytest.mark.parametrize("size", [0.0, 1e-30, 1e-8])
def test_a_key_of_no_length_is_finite_with_its_gradient(size: float) -> None:
    encoding, (q, k, v) = make("rope_keynorm"), qkv(6, 6)
    k = (k * size).requires_grad_()
    attend(q, k, v, encoding, ready(encoding, range(6), range(6))).sum().backward()
    assert k.grad is not None
    assert k.grad.isfinite().all()


def test_bfloat16_keys_are_normalised_in_float32() -> None:
    encoding, (_, k, _) = make("rope_keynorm"), qkv(6, 6)
    span = ready(encoding, range(4000, 4006), range(4000, 4006))
    coarse = encoding.key(k.bfloat16(), span)
    assert coarse.dtype == torch.bfloat16
    torch.testing.assert_close(coarse.float(), encoding.key(k.bfloat16().float(), span), rtol=2**-8, atol=1e-6)
