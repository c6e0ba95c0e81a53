"""FlexAttention agrees with the reference: forward passes anywhere, gradients where there is a GPU."""

from typing import Any

import pytest
import torch

from relformer.attention import attend, flex
from relformer.attention.sdpa import serves
from relformer.encodings import Span
from relformer.errors import UserError
from relformer.registry import encodings
from tests.encodings.calls import enliven, make, qkv, ready

SERVED = [name for name in encodings if serves(make(name))]


def padded(batch: int, keys: int) -> torch.Tensor:
    padding = torch.ones(batch, keys, dtype=torch.bool)
    padding[0, keys - 2 :] = False
    return padding


@pytest.mark.parametrize("masks", ["none", "causal", "padding", "both"])
@pytest.mark.parametrize("name", ["t5", "alibi", "window", "fire", "rope", "absolute_bias"])
@torch.no_grad()
def test_forward_passes_agree_with_dense_on_a_cpu(name: str, masks: str) -> None:
    encoding = make(name)
    enliven(encoding)
    q, k, v = qkv(5, 7)
    span = ready(encoding, range(2, 7), range(7))
    masked: dict[str, Any] = {"causal": masks in ("causal", "both")}
    if masks in ("padding", "both"):
        masked["padding"] = padded(2, 7)
    wanted = attend(q, k, v, encoding, span, backend="dense", **masked)
    torch.testing.assert_close(attend(q, k, v, encoding, span, backend="flex", **masked), wanted, rtol=1e-4, atol=2e-5)


@torch.no_grad()
def test_a_query_that_sees_no_key_gets_zeros() -> None:
    encoding = make("t5")
    q, k, v = qkv(4, 4)
    nothing = torch.zeros(2, 4, dtype=torch.bool)
    out = attend(q, k, v, encoding, ready(encoding, range(4), range(4)), padding=nothing, backend="flex")
    assert not out.any()


def test_what_it_can_not_do_is_said() -> None:
    encoding = make("t5")
    q, k, v = (each.requires_grad_() for each in qkv(4, 4))
    span = ready(encoding, range(4), range(4))
    with pytest.raises(UserError, match="can't train"):
        attend(q, k, v, encoding, span, backend="flex")
    with pytest.raises(UserError, match="no attention dropout"):
        attend(q, k, v, encoding, span, backend="flex", dropout=0.1)
    with pytest.raises(UserError, match="can't serve"):
        attend(q, k, v, make("shaw"), span, backend="flex")


def test_a_cpu_never_takes_it_unasked() -> None:
    encoding = make("t5", heads=2, head_dim=32)
    q = torch.zeros(1, 2, 300, 32)
    span = encoding.ready(Span.between(range(300), range(300), 300, torch.device("cpu")))
    assert not flex.fits(flex.Call(q, q, q, encoding, span, (q, q)))


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", SERVED)
def test_gradients_agree_with_dense_on_a_gpu(name: str, causal: bool) -> None:
    results = []
    for backend in ("dense", "flex"):
        encoding = make(name, heads=4, head_dim=32)
        enliven(encoding)
        encoding.cuda()
        generator = torch.Generator().manual_seed(0)
        q, k, v = (torch.randn(2, 4, 200, 32, generator=generator).cuda().requires_grad_() for _ in range(3))
        padding = padded(2, 200).cuda()
        span = encoding.ready(Span.between(range(200), range(200), 200, q.device))
        out = attend(q, k, v, encoding, span, padding=padding, causal=causal, backend=backend)
        out.sin().sum().backward()
        grads = [p.grad for p in encoding.parameters() if p.grad is not None]
        results.append([out, q.grad, k.grad, v.grad, *grads])
    for got, wanted in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(got, wanted, rtol=2e-3, atol=2e-4)
