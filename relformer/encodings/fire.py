"""FIRE: functional interpolation of relative positions (Li et al. 2023, arXiv:2310.04418).

    score(i, j) += f(psi(i - j) / psi(max(i, L)))_h        psi(x) = ln(1 + c |x|)
    f: Linear(1, 32), ReLU, Linear(32, H)                  L = threshold * |stretch|

with c (0.1) and the stretch (1) learned. The ratio stays within 0 and 1 at any length, which is the point. A query at
i <= L reads a function of the distance alone; beyond, i itself enters, so this is a bias of positions and no table.
The paper is causal. In an encoder and in cross-attention the normaliser is max(i, j, L), and f reads the sign of i - j
beside the ratio: our extension, without which (`signed: false`) an encoder takes a sequence for its mirror image.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from relformer.encodings.base import PositionalEncoding, Role
from relformer.encodings.parameters import constant, parameter
from relformer.encodings.perceptron import Perceptron
from relformer.encodings.precision import precise
from relformer.encodings.span import Span, as_tensor
from relformer.errors import OptionError
from relformer.registry import register

EPS = 1e-6
"""Added to the normaliser, as in the authors' appendix."""


@register(
    "fire",
    family="bias",
    changes="logits, by distance and position",
    learned="yes",
    beyond="interpolates",
    paper="2310.04418",
)
class FIRE(PositionalEncoding):
    share = "layer"

    def __init__(
        self,
        heads: int,
        role: Role,
        *,
        hidden: int = 32,
        threshold: float = 512.0,
        c: float = 0.1,
        signed: bool = True,
    ) -> None:
        super().__init__()
        if hidden < 1:
            raise OptionError("hidden", hidden, "must be at least 1; the paper uses 32")
        if threshold <= 0:
            raise OptionError("threshold", threshold, "must be positive; the paper uses 512 positions")
        if c <= 0:
            raise OptionError("c", c, "must be positive; the paper starts at 0.1")
        self.causal = role == "decoder"
        self.signed = signed and not self.causal
        self.threshold = threshold
        self.fire_c = parameter(constant(c))
        self.fire_stretch = parameter(constant(1.0))
        self.fire_mlp = Perceptron([2 if self.signed else 1, hidden, heads], F.relu)

    def psi(self, x: Tensor) -> Tensor:
        return torch.log1p(precise(self.fire_c).abs() * x)

    def prepare(self, span: Span) -> Tensor:
        """The finished bias: (B | 1, H, Q, K)."""
        furthest = as_tensor(span.q, span.device)[:, :, None]
        if not self.causal:
            furthest = torch.maximum(furthest, as_tensor(span.k, span.device)[:, None, :])
        distance = span.relative.pairs
        normaliser = self.psi(torch.maximum(precise(furthest), self.threshold * precise(self.fire_stretch).abs())) + EPS
        ratio = self.psi(precise(distance.abs())) / normaliser
        inputs = [ratio, precise(distance.sign())] if self.signed else [ratio]
        out: Tensor = self.fire_mlp(torch.stack(inputs, dim=-1))
        return out.permute(0, 3, 1, 2)

    def bias(self, span: Span) -> Tensor:
        return span.prepared
