"""Calls of encodings with relative rows, computed by the kernel and written out, with all their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from relformer.attention.call import Call
from relformer.attention.dense import dense
from relformer.attention.relative import relative
from relformer.encodings import PositionalEncoding, Span
from tests.encodings.calls import CPU, HEAD_DIM, HEADS, enliven, make, randn

V3 = {"shared_projections": True, "norm_embeddings": True, "position_buckets": 4, "max_distance": 16}
FORMS: list[tuple[str, dict[str, Any]]] = [
    ("shaw", {"max_distance": 2}),
    ("shaw", {"max_distance": 2, "zero_outside": True}),
    ("shaw", {"max_distance": 0}),
    ("shaw", {"max_distance": 3, "values": False}),
    ("shaw", {"max_distance": 3, "keys": False}),
    ("shaw", {"max_distance": 60, "zero_outside": True}),
    ("transformer_xl", {}),
    ("transformer_xl", {"terms": ["c2c", "c2p"], "layout": "interleaved"}),
    ("transformer_xl", {"terms": ["c2c", "p2c"]}),
    ("transformer_xl", {"terms": ["p2p"], "clamp_length": 4}),
    ("transformer_xl", {"relative_dropout": 0.3}),
    ("xlnet", {}),
    ("tener", {}),
    ("tener", {"key_term": False, "scale": None}),
    ("tener", {"terms": ["c2c", "p2c"]}),
    ("deberta", {"max_distance": 4}),
    ("deberta", {"max_distance": 64, "p2c_index": "paper"}),
    ("deberta", {"terms": ["p2c"], "relative_dropout": 0.3}),
    ("deberta", {"terms": ["c2c", "c2p"], "position_buckets": 6, "max_distance": 12}),
    ("deberta", V3),
    ("deberta", V3 | {"p2c_index": "paper", "relative_dropout": 0.3}),
]


class Made:
    """Inputs and an encoding, alike for whoever computes: q, k, v (B, H, L, D) and a layer's own projections."""

    def __init__(self, name: str, options: dict[str, Any], q: range, k: range, dtype: torch.dtype, batch: int) -> None:
        self.encoding = make(name, **options)
        enliven(self.encoding)
        self.at = q, k
        sizes = (len(q), len(k), len(k))
        self.inputs = [randn(batch, HEADS, n, HEAD_DIM, seed=s).to(dtype) for s, n in enumerate(sizes)]
        self.weights = [randn(HEADS, HEADS * HEAD_DIM, HEAD_DIM, seed=s) * 0.2 for s in (5, 6)]
        for t in (*self.inputs, *self.weights):
            t.requires_grad_()

    def projection(self, number: int) -> Callable[[Tensor], Tensor]:
        weight = self.weights[number]
        return lambda rows: rows.to(weight.dtype) @ weight

    def call(self, padding: Tensor | None, causal: bool) -> Call:
        encoding: PositionalEncoding = self.encoding
        torch.manual_seed(3)
        span = encoding.ready(Span.between(*self.at, 1000, CPU))
        span = encoding.project(span, self.projection(0), self.projection(1))
        q, k, v = self.inputs
        return Call(encoding.query(q, span), encoding.key(k, span), v, encoding, span, (q, k), None, padding, causal)


def computed(
    backend: Callable[[Call], Tensor],
    form: tuple[str, dict[str, Any]],
    q: range,
    k: range,
    padding: Tensor | None = None,
    causal: bool = False,
    dtype: torch.dtype = torch.float32,
) -> dict[str, Tensor]:
    """The output and every gradient, by name; none where the encoding leaves one out."""
    batch = 2 if padding is None else len(padding)
    made = Made(*form, q, k, dtype, batch)
    out = backend(made.call(padding, causal))
    (out * randn(*out.shape, seed=8).to(dtype)).sum().backward()
    named = [*zip("QKV", made.inputs, strict=True), *zip(("W_q", "W_k"), made.weights, strict=True)]
    named += made.encoding.named_parameters()
    assert len(dict(named)) == len(named)
    return {"out": out.detach()} | {name: t.grad for name, t in named if t.grad is not None}


def check(*case: Any, relative_error: float, absolute: float, **masks: Any) -> None:
    """The kernel agrees with the formula written out, in output and in all gradients."""
    wanted, got = (computed(backend, *case, **masks) for backend in (dense, relative))
    assert got.keys() == wanted.keys()
    for name, value in wanted.items():
        torch.testing.assert_close(
            got[name], value, rtol=relative_error, atol=absolute, msg=lambda text, name=name: f"{name}: {text}"
        )
