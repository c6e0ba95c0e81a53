"""What the tests of encodings share: building one by name, probabilities seen from outside, fixtures."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from relformer.attention import attend
from relformer.encodings import PositionalEncoding, Positions, Span
from relformer.registry import encodings
from relformer.seeding import seed_generators

HEADS, HEAD_DIM, WIDTH = 3, 8, 24
CPU = torch.device("cpu")
FIXTURES = Path(__file__).parent.parent / "fixtures"


def make(
    name: str, role: str | None = None, *, heads: int = HEADS, head_dim: int = HEAD_DIM, **options: Any
) -> PositionalEncoding:
    """A registered encoding, given what a builder injects, in the first role it takes unless told.

    Its parameters are the same in every run.
    """
    refused = encodings[name].cls.refuses  # type: ignore[attr-defined]
    role = role or next(r for r in ("encoder", "decoder", "cross") if r not in refused)
    injected = {
        "heads": heads,
        "head_dim": head_dim,
        "width": heads * head_dim,
        "layers": 2,
        "layer": 0,
        "role": role,
        "vocabulary": 11,
        "embedding_std": 1.0,
    }
    with torch.random.fork_rng(devices=[]):
        seed_generators(0)
        built: PositionalEncoding = encodings[name].build(injected, options)
    return built


@torch.no_grad()
def enliven(encoding: torch.nn.Module, std: float = 0.4, seed: int = 7) -> None:
    """Move every parameter away from its start, so that tables of zeros or of tiny values can hide nothing."""
    generator = torch.Generator().manual_seed(seed)
    for p in encoding.parameters():
        p.add_(torch.randn(p.shape, generator=generator) * std)


def ready(encoding: PositionalEncoding, q: Positions, k: Positions, length: int = 1000) -> Span:
    return encoding.ready(Span.between(q, k, length, CPU))


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def qkv(queries: int, keys: int, batch: int = 2, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Random q, k and v of the usual size."""
    sizes = (queries, keys, keys)
    q, k, v = (randn(batch, HEADS, n, HEAD_DIM, seed=seed + s) for s, n in enumerate(sizes))
    return q, k, v


@torch.no_grad()
def probabilities(q: Tensor, k: Tensor, encoding: PositionalEncoding, span: Span, **masks: Any) -> Tensor:
    """(B, H, Q, K): the attention is affine in v, so values that are one-hot rows show the weights."""
    batch, heads, keys, size = k.shape
    nothing = attend(q, k, k.new_zeros(batch, heads, keys, size), encoding, span, backend="dense", **masks)
    columns = []
    for first in range(0, keys, size):
        one_hot = F.pad(torch.eye(keys, dtype=k.dtype), (0, size))[:, first : first + size]
        v = one_hot.expand(batch, heads, keys, size)
        columns.append(attend(q, k, v, encoding, span, backend="dense", **masks) - nothing)
    return torch.cat(columns, dim=-1)[..., :keys]


def pair_bias(encoding: PositionalEncoding, q: Positions, k: Positions) -> Tensor:
    """The finished table bias of one call: (B | 1, H, Q, K)."""
    span = ready(encoding, q, k)
    assert span.table is not None
    return span.relative.expand(span.table)


def fixture(name: str) -> dict[str, Tensor]:
    """The arrays of one fixture as tensors; float32 and int64."""
    with np.load(FIXTURES / f"{name}.npz") as arrays:
        tensors = {key: torch.from_numpy(np.array(arrays[key])) for key in arrays.files}
    return {key: t if t.is_floating_point() else t.long() for key, t in tensors.items()}


def project(x: Tensor, case: dict[str, Tensor], layer: str, heads: int) -> Tensor:
    """A foreign projection and the split into heads: (B, T, E) -> (B, H, T, D)."""
    return linear(x, case, layer).unflatten(-1, (heads, -1)).transpose(1, 2)


def linear(x: Tensor, case: dict[str, Tensor], layer: str) -> Tensor:
    return F.linear(x, case[f"param.{layer}.weight"], case.get(f"param.{layer}.bias"))


def joined(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)  # (B, H, T, D) -> (B, T, E)


@torch.no_grad()
def put(encoding: PositionalEncoding, **values: Tensor) -> None:
    """Foreign weights into parameters; shapes must agree."""
    parameters = dict(encoding.named_parameters())
    for name, value in values.items():
        assert parameters[name].shape == value.shape, (name, parameters[name].shape, value.shape)
        parameters[name].copy_(value)
