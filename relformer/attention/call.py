"""One attention call: what every backend reads, and what is made of it when a backend or an onlooker asks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from relformer.encodings import PositionalEncoding, Span
from relformer.encodings.precision import unlowered


@dataclass(frozen=True, eq=False)
class Call:
    """q (B, H, Q, D) and k (B, H, K, D) as the encoding made them, `raw` as projected, and v (B, H, K, D)."""

    q: Tensor
    k: Tensor
    v: Tensor
    encoding: PositionalEncoding
    span: Span
    raw: tuple[Tensor, Tensor]
    features: Tensor | None = None
    """(B, H, K, F): what `encoding.features` made of the keys' inputs."""
    padding: Tensor | None = None
    """(B, K) bool, True where the key is a token; None where every key is."""
    causal: bool = False
    dropout: float = 0.0
    prefix: Tensor | None = None
    """(B,): of each sequence how many keys at its beginning every query sees, causal or not; None is none."""

    @property
    def scale(self) -> float:
        """The multiplier of q·k."""
        return self.encoding.scale(self.raw[0].shape[-1])

    @cached_property
    def keep(self) -> Tensor | None:
        """The mask, True = attend: broadcastable to (B, H, Q, K), or None where every query sees every key."""
        relative = self.span.relative
        masks = []
        if self.causal and relative.past is not None:
            masks.append(relative.past[:, None] if self.prefix is None else relative.past[:, None] | self.beginning)
        if self.padding is not None:
            masks.append(self.padding[:, None, None, :])
        if self.encoding.acts("visible"):
            seen = self.encoding.visible(relative.distance)
            if seen is not None:
                masks.append(seen[relative.index][:, None])
        keep = None
        for mask in masks:
            keep = mask if keep is None else keep & mask
        return keep

    @property
    def beginning(self) -> Tensor:
        """The keys of the prefix: (B, 1, 1, K)."""
        assert self.prefix is not None
        return (torch.arange(self.k.shape[-2], device=self.k.device) < self.prefix[:, None])[:, None, None]

    @cached_property
    def bias(self) -> Tensor | None:
        """Table and bias of the encoding for all pairs: broadcastable to (B, H, Q, K), made in float32, cast last."""
        bias = self.span.pair_bias
        if self.encoding.acts("bias"):
            with unlowered(self.span.device):
                more = self.encoding.bias(self.span)
            if more is not None:
                more = more if more.dim() == 4 else more[None]
                bias = more if bias is None else bias + more
        return None if bias is None else bias.to(self.raw[0].dtype)

    def logits(self) -> Tensor:
        """(B, H, Q, K) in nats: scaled, with all that the encoding adds, before the mask."""
        scores = self.q @ self.k.mT * self.scale
        if self.bias is not None:
            scores = scores + self.bias
        if self.encoding.acts("score"):
            scores = self.encoding.score(scores, *self.raw, self.features, self.span, self.keep)
        return scores

    def weights(self) -> Tensor:
        """(B, H, Q, K) that sum to 1 over the keys that are seen, at least in float32."""
        scores = self.logits()
        if self.keep is not None:
            scores = scores.masked_fill(~self.keep, torch.finfo(scores.dtype).min)
        return scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))

    def among_others(self) -> Call:
        """The same queries before the keys of the next sentence of the batch, at the same positions: no query then
        meets a key made of its own token. Needs equal lengths and positions in all sentences."""
        features = None if self.features is None else self.features.roll(1, 0)
        return replace(self, k=self.k.roll(1, 0), raw=(self.raw[0], self.raw[1].roll(1, 0)), features=features)
