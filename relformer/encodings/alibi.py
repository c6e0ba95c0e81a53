"""ALiBi: attention with linear biases (Press, Smith and Lewis 2022, arXiv:2108.12409).

    score(i, j) += -m_h * |i - j|        m_h = 2^(-max_bias * h / H), h = 1..H, for H a power of two

The paper is causal. In an encoder the default is this symmetric form, which cannot tell a sequence from its mirror
image. `form: asymmetric` mends that in an encoder and in cross-attention (a decoder has no future) with a slope for the
past and one for the future: two learned ones with `learned`, and otherwise the slopes in reverse order for the future,
so that heads which look near behind look far ahead. `slopes` replaces the paper's, one a biased head. With
`biased_heads` only the first of the heads get a bias, and the slopes are those of so many heads. Nothing is learned
unless `learned`; the slopes are then stored as logarithms, so that they stay positive. `untie_first` gives the first
token learned biases of its own.
"""

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from relformer.encodings.base import Role
from relformer.encodings.first_token import FirstApart
from relformer.encodings.parameters import parameter
from relformer.encodings.precision import precise
from relformer.errors import OptionError
from relformer.registry import register


@register(
    "alibi", family="bias", changes="logits, by distance", learned="option", beyond="extrapolates", paper="2108.12409"
)
class ALiBi(FirstApart):
    log_slopes: Tensor
    log_future_slopes: Tensor

    def __init__(
        self,
        heads: int,
        role: Role,
        *,
        max_bias: float = 8.0,
        learned: bool = False,
        slopes: list[float] | None = None,
        biased_heads: int | None = None,
        form: Literal["symmetric", "asymmetric"] = "symmetric",
        untie_first: bool = False,
    ) -> None:
        super().__init__()
        if max_bias <= 0:
            raise OptionError("max_bias", max_bias, "must be positive; the paper uses 8")
        if biased_heads is not None and not 1 <= biased_heads <= heads:
            raise OptionError("biased_heads", biased_heads, f"must lie between 1 and the {heads} heads; null means all")
        biased = heads if biased_heads is None else biased_heads
        self.unbiased = heads - biased
        if slopes is not None:
            refuse_slopes(slopes, biased, learned)
        start = torch.tensor(published_slopes(biased, max_bias) if slopes is None else list(slopes)).log()
        self.two_sided = form == "asymmetric" and role != "decoder"
        if self.two_sided and not learned and torch.equal(start, start.flip(0)):
            raise OptionError("form", form, "needs slopes that differ in reverse order; set learned=true, or slopes")
        if learned:
            self.log_slopes = parameter(lambda tensor, generator: tensor.copy_(start), biased)
        else:
            self.constant("log_slopes", start)
        if self.two_sided and learned:
            self.log_future_slopes = parameter(lambda tensor, generator: tensor.copy_(start), biased)
        elif self.two_sided:
            self.constant("log_future_slopes", start.flip(0))
        if untie_first:
            self.untie(heads, role)

    def table(self, distance: Tensor) -> Tensor:
        bias = penalty(self.log_slopes, distance)
        if self.two_sided:
            bias = torch.where(distance < 0, penalty(self.log_future_slopes, distance), bias)
        return F.pad(bias, (0, 0, 0, self.unbiased)) if self.unbiased else bias


def penalty(log_slopes: Tensor, distance: Tensor) -> Tensor:
    """-m_h |i - j|: (H,), (R,) -> (H, R)."""
    return -precise(log_slopes).exp()[:, None] * distance.abs()


def published_slopes(heads: int, max_bias: float) -> list[float]:
    """One slope a head. Other head counts take every second slope of the next power of two, in the paper's order."""
    power = 1 << (heads.bit_length() - 1)
    geometric = [2.0 ** (-max_bias * h / power) for h in range(1, power + 1)]
    if power == heads:
        return geometric
    return geometric + published_slopes(2 * power, max_bias)[::2][: heads - power]


def refuse_slopes(slopes: list[float], biased: int, learned: bool) -> None:
    """Raises OptionError for slopes that are too few or too many, negative, or 0 where their logarithm is learned."""
    if len(slopes) != biased:
        raise OptionError("slopes", slopes, f"must be {biased} numbers, one a biased head; null means the paper's")
    if any(m < 0 or (learned and m == 0) for m in slopes):
        sign = "be positive: their logarithms are learned" if learned else "not be negative: a bias is -m |i - j|"
        raise OptionError("slopes", slopes, f"must {sign}")
