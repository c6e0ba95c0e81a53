"""One attention call as it is made, for whoever looks at logits; models that nobody looks at never build one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from relformer.attention.dense import logits, shares
from relformer.encodings import PositionalEncoding, Span


@dataclass(frozen=True)
class Call:
    """q (B, H, Q, D) and k (B, H, K, D) as the encoding made them, `raw` as projected, and all else a logit has."""

    q: Tensor
    k: Tensor
    encoding: PositionalEncoding
    span: Span
    keep: Tensor | None
    bias: Tensor | None
    raw: tuple[Tensor, Tensor]
    features: Tensor | None

    def logits(self) -> Tensor:
        """(B, H, Q, K) in nats: scaled, with all that the encoding adds, before the mask."""
        return logits(self.q, self.k, self.encoding, self.span, self.keep, self.bias, self.raw, self.features)

    def weights(self) -> Tensor:
        """(B, H, Q, K) that sum to 1 over the keys."""
        return shares(self.logits(), self.keep)

    def among_others(self) -> Call:
        """The same queries before the keys of the next sentence of the batch, at the same positions: no query then
        meets a key made of its own token. Needs equal lengths and positions in all sentences."""
        features = None if self.features is None else self.features.roll(1, 0)
        return replace(self, k=self.k.roll(1, 0), raw=(self.raw[0], self.raw[1].roll(1, 0)), features=features)
