"""Single attention calls to measure: each encoding's, plain SDPA's, and the table of introductory articles.

Shapes as elsewhere: B batch, H heads, L length of both sides, D head size, E = H D.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from relformer.attention import attend
from relformer.benchmark.options import filled
from relformer.encodings import PositionalEncoding, Role, Span, draw
from relformer.registry import encodings

SDPA, NAIVE = "SDPA, no positions", "naive table"
HOOKS = ("prepare", "project", "features", "query", "key", "scale", "table", "bias", "visible", "score", "value")
"""Through which an encoding acts within an attention call."""


@dataclass(frozen=True)
class Setting:
    """The sizes of a call. A decoder's is causal; `padding` is the share of keys that are padding."""

    batch: int
    heads: int
    head_dim: int
    length: int
    role: Role
    padding: float
    device: torch.device

    @property
    def causal(self) -> bool:
        return self.role == "decoder"

    def drawn(self, seed: int, *shape: int) -> Tensor:
        return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(self.device)

    @cached_property
    def qkv(self) -> list[Tensor]:
        """(B, H, L, D) each, all taking gradients."""
        shape = (self.batch, self.heads, self.length, self.head_dim)
        return [self.drawn(seed, *shape).requires_grad_() for seed in range(3)]

    @cached_property
    def gradient(self) -> Tensor:
        """Of the output."""
        return self.drawn(3, self.batch, self.heads, self.length, self.head_dim)

    @cached_property
    def x(self) -> Tensor:
        """What the layer's projections read: (B, L, E)."""
        return self.drawn(4, self.batch, self.length, self.heads * self.head_dim)

    @cached_property
    def projections(self) -> list[Tensor]:
        """The layer's W_q and W_k, (E, E), for encodings that use them too."""
        width = self.heads * self.head_dim
        return [(self.drawn(seed, width, width) / math.sqrt(width)).requires_grad_() for seed in (5, 6)]

    @cached_property
    def keep(self) -> Tensor | None:
        """(B, L), True where a key is a token; None without padding."""
        if not self.padding:
            return None
        lengths = torch.tensor(filled(self.batch, self.length, self.padding), device=self.device)
        return torch.arange(self.length, device=self.device) < lengths[:, None]

    @cached_property
    def mask(self) -> Tensor | None:
        """Padding and causality in one mask, (B, 1, L, L), or (B, 1, 1, L) for padding alone; None where neither is."""
        seen = None if self.keep is None else self.keep[:, None, None, :]
        if not self.causal:
            return seen
        past = torch.ones(self.length, self.length, dtype=torch.bool, device=self.device).tril()
        return past if seen is None else past & seen


@dataclass(frozen=True)
class Subject:
    """A call, and the tensors whose gradients are taken."""

    call: Callable[[], Tensor]
    leaves: list[Tensor]
    gradient: Tensor

    def forward(self) -> None:
        with torch.no_grad():
            self.call()

    def backward(self) -> None:
        """Forward and backward; the gradients are dropped."""
        torch.autograd.grad(self.call(), self.leaves, self.gradient, allow_unused=True)


def plain(setting: Setting) -> Subject:
    """torch's attention without positions: the floor. Causality without padding is left to its fast path."""
    alone = setting.causal and setting.keep is None
    mask = None if alone else setting.mask
    q, k, v = setting.qkv
    return Subject(
        lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=alone), setting.qkv, setting.gradient
    )


def encoded(encoding: PositionalEncoding, setting: Setting) -> Subject:
    """One call of relformer's, with all that the encoding makes once a step and a model's layers may share.

    Positions are drawn before: once for a batch.
    """
    q, k, v = setting.qkv
    positions = encoding.positions(setting.length, setting.batch, setting.device)
    projections = setting.projections if encoding.acts("project") else []

    def rows(number: int) -> Callable[[Tensor], Tensor]:
        return lambda x: F.linear(x, projections[number]).unflatten(-1, (setting.heads, -1)).transpose(0, 1)

    def call() -> Tensor:
        span = encoding.ready(Span.between(positions, positions, setting.length, setting.device))
        if projections:
            span = encoding.project(span, rows(0), rows(1))
        features = encoding.features(setting.x) if encoding.acts("features") else None
        return attend(q, k, v, encoding, span, padding=setting.keep, causal=setting.causal, features=features)

    leaves = [*setting.qkv, *encoding.parameters(), *projections]
    return Subject(call, leaves, setting.gradient)


def naive(setting: Setting) -> Subject:
    """A learned bias by distance as introductory articles write it: gather (L, L, H), permute, add, softmax."""
    q, k, v = setting.qkv
    table = nn.Embedding(2 * setting.length - 1, setting.heads, device=setting.device)
    mask = setting.mask

    def call() -> Tensor:
        positions = torch.arange(setting.length, device=setting.device)
        distance = positions[:, None] - positions[None, :] + setting.length - 1
        bias = table(distance).permute(2, 0, 1)
        scores = q @ k.transpose(-2, -1) / math.sqrt(setting.head_dim) + bias
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        return scores.softmax(-1) @ v

    return Subject(call, [*setting.qkv, table.weight], setting.gradient)


def built(name: str, options: Mapping[str, Any], setting: Setting) -> PositionalEncoding:
    """An encoding as the first of six layers would have it, its weights drawn by their names.

    Raises:
        UserError: options that it does not take.
    """
    injected = {
        "heads": setting.heads,
        "head_dim": setting.head_dim,
        "width": setting.heads * setting.head_dim,
        "layers": 6,
        "layer": 0,
        "role": setting.role,
        "vocabulary": 3,
        "embedding_std": 1.0,
    }
    encoding: PositionalEncoding = encodings[name].build(injected, dict(options))
    encoding.locate(name)
    draw(encoding, 0)
    return encoding.to(setting.device)


def acts_on_attention(encoding: PositionalEncoding) -> bool:
    """Whether a call costs more with it than without; those that act on a stack's input alone do not."""
    return any(encoding.acts(hook) for hook in HOOKS)
