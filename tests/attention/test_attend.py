"""One attention call: masks, backends, dropout, and what every backend must agree on."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from relformer.attention import attend
from relformer.attention.call import Call
from relformer.attention.sdpa import serves
from relformer.encodings import Positions
from relformer.registry import encodings
from tests.encodings.calls import WIDTH, enliven, make, pair_bias, qkv, randn, ready

SERVED = [name for name in encodings if serves(make(name))]
SAMPLED = torch.tensor([[0, 2, 3, 7, 8, 30], [1, 4, 5, 6, 21, 22]])
SPANS: dict[str, tuple[Positions, Positions]] = {
    "square": (range(6), range(6)),
    "rows": (range(3, 6), range(6)),
    "sampled": (SAMPLED, SAMPLED),
}


def padded() -> Tensor:
    padding = torch.ones(2, 6, dtype=torch.bool)
    padding[0, 4:] = False
    padding[1, 3] = False
    return padding


PREFIX = {"causal": True, "prefix": torch.tensor([3, 5])}
MASKS: list[dict[str, Any]] = [
    {},
    {"causal": True},
    {"padding": padded()},
    {"causal": True, "padding": padded()},
    PREFIX,
    PREFIX | {"padding": padded()},
]


@pytest.mark.parametrize("masks", MASKS, ids=lambda m: "+".join(m) or "none")
@pytest.mark.parametrize("spans", SPANS)
@pytest.mark.parametrize("name", SERVED)
def test_backends_agree_forward_and_backward(name: str, spans: str, masks: dict[str, Any]) -> None:
    q_at, k_at = SPANS[spans]
    results = []
    for backend in ("dense", "sdpa", "auto"):
        encoding = make(name)
        enliven(encoding)
        queries = len(q_at) if isinstance(q_at, range) else q_at.shape[1]
        inputs = [t.requires_grad_() for t in qkv(queries, 6)]
        out = attend(*inputs, encoding, ready(encoding, q_at, k_at), backend=backend, **masks)
        out.sin().sum().backward()
        results.append([out, *(t.grad for t in inputs), *(p.grad for p in encoding.parameters() if p.grad is not None)])
    for other in results[1:]:
        assert len(other) == len(results[0])
        for got, wanted in zip(other, results[0], strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", list(encodings))
@torch.no_grad()
def test_a_long_prefix_is_seen_by_every_backend_that_auto_takes(name: str) -> None:
    """As long as that kernels which write no mask out are chosen without it."""
    encoding, length = make(name), 200
    enliven(encoding)
    most = encoding.max_positions()
    if encoding.acts("features") or (most is not None and most < length):
        pytest.skip("served by the dense formula alone, or its table is short")
    q, k, v = qkv(length, length)
    span = ready(encoding, range(length), range(length))
    prefix = torch.tensor([150, 60])
    found, wanted = (
        attend(q, k, v, encoding, span, causal=True, prefix=prefix, backend=backend) for backend in ("auto", "dense")
    )
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", ["dense", "sdpa", "auto"])
@torch.no_grad()
def test_the_scale_is_the_encodings_on_every_backend(backend: str) -> None:
    encoding = make("t5", scale=1.0)
    q, k, v = qkv(6, 6)
    span = ready(encoding, range(6), range(6))
    logits = q @ k.mT + pair_bias(encoding, range(6), range(6))
    torch.testing.assert_close(attend(q, k, v, encoding, span, backend=backend), logits.softmax(-1) @ v)


@pytest.mark.parametrize("backend", ["dense", "sdpa", "auto"])
@pytest.mark.parametrize("masks", MASKS, ids=lambda m: "+".join(m) or "none")
@torch.no_grad()
def test_masks_hide_and_nothing_else_does(masks: dict[str, Any], backend: str) -> None:
    """Which values reach which query, seen by changing one value at a time."""
    encoding = make("rope")
    q, k, v = qkv(3, 6)
    span = ready(encoding, range(2, 5), range(6))
    plain = attend(q, k, v, encoding, span, backend=backend, **masks)
    for j in range(6):
        louder = v.clone()
        louder[:, :, j] += 1.0
        moved = (attend(q, k, louder, encoding, span, backend=backend, **masks) - plain).abs().amax((1, 3)) > 1e-6
        for b in range(2):
            real = "padding" not in masks or bool(masks["padding"][b, j])
            known = j < int(masks["prefix"][b]) if "prefix" in masks else not masks.get("causal")
            wanted = [real and (known or j <= i) for i in range(2, 5)]
            assert moved[b].tolist() == wanted


def test_a_mask_is_made_only_where_something_is_hidden() -> None:
    encoding = make("alibi")
    q, k, v = qkv(4, 4)
    call = Call(q, k, v, encoding, ready(encoding, range(4), range(4)), (q, k))
    assert call.keep is None
    causal = replace(call, causal=True).keep
    assert causal is not None
    assert torch.equal(causal[0, 0], torch.ones(4, 4).tril().bool())


@pytest.mark.parametrize("name", list(encodings))
@torch.no_grad()
def test_keys_that_went_through_the_encoding_are_taken_as_they_are(name: str) -> None:
    encoding = make(name)
    enliven(encoding)
    q, k, v = qkv(6, 6)
    span = ready(encoding, range(20, 26), range(20, 26))
    if encoding.keys == "before":
        pytest.skip("its cache holds raw keys")
    features = encoding.features(randn(2, 6, WIDTH, seed=9))
    raw = attend(q, k, v, encoding, span, features=features)
    done = attend(q, encoding.key(k, span), v, encoding, span, features=features, keys_done=True)
    torch.testing.assert_close(done, raw)


@pytest.mark.parametrize("backend", ["dense", "sdpa"])
@torch.no_grad()
def test_dropout_keeps_the_mean_and_drops_weights(backend: str) -> None:
    encoding = make("alibi")
    q, k, v = qkv(6, 6)
    span = ready(encoding, range(6), range(6))
    torch.manual_seed(0)
    plain = attend(q, k, v, encoding, span, backend=backend)
    draws = torch.stack([attend(q, k, v, encoding, span, backend=backend, dropout=0.3) for _ in range(2000)])
    assert not torch.allclose(draws[0], draws[1])
    torch.testing.assert_close(draws.mean(0), plain, rtol=0, atol=0.1)


@torch.no_grad()
def test_relative_values_meet_the_weights_after_dropout() -> None:
    """With all weights dropped nothing is left of the values, relative ones included."""
    encoding = make("shaw")
    enliven(encoding)
    q, k, v = qkv(6, 6)
    span = ready(encoding, range(6), range(6))
    assert attend(q, k, v, encoding, span, dropout=1.0).abs().max() == 0
    assert attend(q, k, v, encoding, span).abs().max() > 0.1


@pytest.mark.parametrize("backend", ["dense", "sdpa"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.no_grad()
def test_great_logits_overflow_nothing(backend: str, dtype: torch.dtype) -> None:
    encoding = make("alibi")
    q, k, v = (t.to(dtype) for t in qkv(6, 6))
    out = attend(q * 100, k * 100, v, encoding, ready(encoding, range(6), range(6)), causal=True, backend=backend)
    assert out.isfinite().all()
    assert out.dtype == dtype


@pytest.mark.parametrize("masks", MASKS, ids=lambda m: "+".join(m) or "none")
@pytest.mark.parametrize("name", SERVED)
@torch.no_grad()
def test_an_observer_sees_the_weights_that_make_the_output(name: str, masks: dict[str, Any]) -> None:
    """Whatever kernel makes the output, which watching does not change."""
    encoding = make(name)
    enliven(encoding)
    q, k, v = qkv(6, 6)
    span = ready(encoding, range(6), range(6))
    seen: list[Call] = []
    out = attend(q, k, v, encoding, span, observer=seen.append, **masks)
    assert torch.equal(out, attend(q, k, v, encoding, span, **masks))
    (call,) = seen
    torch.testing.assert_close(call.weights() @ v, out, rtol=1e-4, atol=1e-5)
