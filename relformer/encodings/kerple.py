"""KERPLE: conditionally positive definite kernels of the distance (Chi et al. 2022, arXiv:2205.09921).

    kerple_log      score(i, j) += -r1 ln(1 + r2 |i - j|)        r1, r2 > 0
    kerple_power    score(i, j) += -r1 |i - j|^r2                r1 > 0, 0 < r2 < 2

with r1 and r2 learned a head, starting at U(0, 2) and U(0, 1) (log) or U(0, 1) and U(0, 2) (power), at least 0.01. The
released code clamps them in place before each pass; here r1 is a softplus, and r2 a softplus or twice a sigmoid, so
that an optimizer cannot leave the range. Both kernels are symmetric, so that an encoder takes a sequence for its mirror
image, unless `split` gives the future a kernel of its own. kerple_power with r2 = 1 is ALiBi with learned slopes.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from relformer.encodings.base import PositionalEncoding, Role
from relformer.encodings.parameters import Law, parameter
from relformer.encodings.precision import precise
from relformer.registry import register

LEAST = 0.01
"""The authors' lower limit of both parameters, kept for the start."""


def uniform_through(most: float, inverse: Callable[[Tensor], Tensor]) -> Law:
    """Values whose image under the squashing function is U(0.01, most)."""
    return lambda tensor, generator: tensor.copy_(inverse(tensor.uniform_(LEAST, most, generator=generator)))


def inverse_softplus(y: Tensor) -> Tensor:
    return y + torch.log(-torch.expm1(-y))


class LogKernel(nn.Module):
    def __init__(self, heads: int) -> None:
        super().__init__()
        self.kerple_log_r1 = parameter(uniform_through(2.0, inverse_softplus), heads)
        self.kerple_log_r2 = parameter(uniform_through(1.0, inverse_softplus), heads)

    def forward(self, steps: Tensor) -> Tensor:
        """(R,) distances, none negative -> (H, R)."""
        r1, r2 = F.softplus(precise(self.kerple_log_r1)), F.softplus(precise(self.kerple_log_r2))
        return -r1[:, None] * torch.log1p(r2[:, None] * steps)


class PowerKernel(nn.Module):
    def __init__(self, heads: int) -> None:
        super().__init__()
        self.kerple_power_r1 = parameter(uniform_through(1.0, inverse_softplus), heads)
        self.kerple_power_r2 = parameter(uniform_through(2.0 - LEAST, lambda y: torch.logit(y / 2)), heads)

    def forward(self, steps: Tensor) -> Tensor:
        """(R,) distances, none negative -> (H, R). At distance 0, where ln would spoil the gradient, a plain 0."""
        r1, r2 = F.softplus(precise(self.kerple_power_r1)), 2 * torch.sigmoid(precise(self.kerple_power_r2))
        return -r1[:, None] * torch.where(steps > 0, steps.clamp(min=1) ** r2[:, None], 0.0)


class Kerple(PositionalEncoding):
    """What both kernels share: one kernel, or one for the past and one for the future."""

    kernel: Callable[[int], nn.Module]

    def __init__(self, heads: int, role: Role, *, split: bool = False) -> None:
        super().__init__()
        self.past = self.kernel(heads)
        self.future = self.kernel(heads) if split and role != "decoder" else None

    def table(self, distance: Tensor) -> Tensor:
        steps = precise(distance.abs())
        past: Tensor = self.past(steps)
        return past if self.future is None else torch.where(distance < 0, self.future(steps), past)


@register(
    "kerple_log",
    family="bias",
    changes="logits, by distance",
    learned="yes",
    beyond="extrapolates",
    paper="2205.09921",
)
class KerpleLog(Kerple):
    kernel = LogKernel


@register(
    "kerple_power",
    family="bias",
    changes="logits, by distance",
    learned="yes",
    beyond="extrapolates",
    paper="2205.09921",
)
class KerplePower(Kerple):
    kernel = PowerKernel
