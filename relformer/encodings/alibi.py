"""ALiBi: attention with linear biases (Press, Smith and Lewis 2022, arXiv:2108.12409).

    score(i, j) += -m_h * |i - j|        m_h = 2^(-max_bias * h / H), h = 1..H, for H a power of two

The paper is causal. In an encoder this is the symmetric form, which cannot tell a sequence from its mirror image.
Nothing is learned unless `learned`; the slopes are then stored as logarithms, so that they stay positive.
"""

import torch
from torch import Tensor

from relformer.encodings.base import PositionalEncoding
from relformer.encodings.parameters import parameter
from relformer.errors import OptionError
from relformer.registry import register


@register(
    "alibi", family="bias", changes="logits, by distance", learned="option", beyond="extrapolates", paper="2108.12409"
)
class ALiBi(PositionalEncoding):
    def __init__(self, heads: int, *, max_bias: float = 8.0, learned: bool = False) -> None:
        super().__init__()
        if max_bias <= 0:
            raise OptionError("max_bias", max_bias, "must be positive; the paper uses 8")
        log_slopes = torch.tensor(slopes(heads, max_bias)).log()
        if learned:
            self.log_slopes = parameter(lambda tensor, generator: tensor.copy_(log_slopes), heads)
        else:
            self.constant("log_slopes", log_slopes)

    def table(self, distance: Tensor) -> Tensor:
        return -self.log_slopes.float().exp()[:, None] * distance.abs()


def slopes(heads: int, max_bias: float) -> list[float]:
    """One slope a head. Other head counts take every second slope of the next power of two, in the paper's order."""
    power = 1 << (heads.bit_length() - 1)
    geometric = [2.0 ** (-max_bias * h / power) for h in range(1, power + 1)]
    if power == heads:
        return geometric
    return geometric + slopes(2 * power, max_bias)[::2][: heads - power]
