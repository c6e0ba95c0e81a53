"""Forgetting attention: a penalty by the gates passed on the way (Lin et al. 2025, arXiv:2503.02130).

    g_l = ln sigmoid(w_h · x_l + beta_h)
    score(i, j) += sum of g_l over j < l <= i              for keys in the past
    score(i, j) += sum of g'_l over i <= l < j             for keys in the future, with gates of their own

ALiBi with a slope that the data set. The paper is causal; the second line, its mirror image, is our form for an
encoder (x-transformers' sums i < l <= j instead, where the key's own gate counts and the query's does not). l runs over
the keys of the call. beta starts at `gate_bias`, 5 as in x-transformers, at which a step costs 0.0067 nats.
Padding must lie to the right, as everywhere in relformer: its gates then come after all real keys.
"""

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from relformer.encodings.base import PositionalEncoding, Role
from relformer.encodings.parameters import constant, parameter, uniform
from relformer.encodings.precision import precise, unlowered
from relformer.encodings.span import Span
from relformer.registry import register


@register(
    "forgetting",
    family="modifier",
    changes="logits, by content and distance",
    learned="yes",
    beyond="extrapolates",
    paper="2503.02130",
)
class Forgetting(PositionalEncoding):
    share = "layer"
    refuses: ClassVar[dict[Role, str]] = {
        "cross": "a target position has no gate among the source's; use cross_encoding=none, "
        "and encoding=forgetting or decoder_encoding=forgetting"
    }

    def __init__(self, heads: int, width: int, role: Role, *, gate_bias: float = 5.0) -> None:
        super().__init__()
        self.heads, self.causal = heads, role == "decoder"
        gates = heads if self.causal else 2 * heads
        self.forget_weight = parameter(uniform(width**-0.5), gates, width)
        self.forget_bias = parameter(constant(gate_bias), gates)

    def features(self, x: Tensor) -> Tensor:
        """ln of the gates, to the past and in an encoder to the future too: (B, T, E) -> (B, H, T, 1 | 2) float32."""
        with unlowered(x.device):
            gates = F.logsigmoid(F.linear(precise(x), precise(self.forget_weight), precise(self.forget_bias)))
        return gates.unflatten(-1, (-1, self.heads)).permute(0, 3, 1, 2)

    def prepare(self, span: Span) -> tuple[Tensor, Tensor]:
        """How many keys lie at or before each query, and how many before it: (B | 1, 1, Q) each."""
        pairs = span.relative.pairs
        return (pairs >= 0).sum(-1)[:, None], (pairs > 0).sum(-1)[:, None]

    def score(
        self, scores: Tensor, q: Tensor, k: Tensor, features: Tensor | None, span: Span, keep: Tensor | None
    ) -> Tensor:
        if features is None:
            raise ValueError("forgetting reads the keys' inputs: hand attend() what `features` made of them")
        reached, passed = span.prepared
        past = running_sum(features[..., 0])
        bias = at(past, reached)[..., None] - past[:, :, None, 1:]
        if self.causal:
            ahead = torch.zeros_like(bias)
        else:
            future = running_sum(features[..., 1])
            ahead = future[:, :, None, :-1] - at(future, passed)[..., None]
        return scores + torch.where(span.relative.pairs[:, None] >= 0, bias, ahead).to(scores.dtype)


def running_sum(gates: Tensor) -> Tensor:
    """The sum of the first n, for n = 0..K: (B, H, K) -> (B, H, K + 1)."""
    return F.pad(precise(gates).cumsum(-1), (1, 0))


def at(sums: Tensor, count: Tensor) -> Tensor:
    """Each query's sum: (B, H, K + 1) at (B | 1, 1, Q) -> (B, H, Q)."""
    return sums.gather(-1, count.expand(*sums.shape[:2], -1))
