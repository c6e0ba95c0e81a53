"""GAU's rotary bias: two learned vectors a head, turned to their positions (Hua et al. 2022, arXiv:2202.10447).

    score(i, j) += (R(i) a_h) · (R(j) b_h)        R as in rope, D channels, pairs (2c, 2c + 1)
                = sum_c (a0 b0 + a1 b1) cos((i - j) w_c) + (a0 b1 - a1 b0) sin((i - j) w_c)

which is a function of the distance alone, and of its direction. Queries and keys are left as they are; with `rope`
beside it in `compose` the model has both. a and b start at N(0, 0.02), so that their product starts near 0.
"""

import torch
from torch import Tensor

from relformer.encodings.base import PositionalEncoding
from relformer.encodings.parameters import normal, parameter
from relformer.encodings.precision import precise, precision
from relformer.errors import OptionError, UserError
from relformer.registry import register


@register("rope_gau", family="bias", changes="logits, by distance", learned="yes", beyond="extends", paper="2202.10447")
class RoPEGAU(PositionalEncoding):
    share = "layer"

    def __init__(self, heads: int, head_dim: int, *, base: float = 10000.0, init_std: float = 0.02) -> None:
        super().__init__()
        if head_dim % 2:
            raise UserError(
                f"rope_gau turns channels in pairs, but a head has {head_dim}; choose model.width and model.heads "
                "for an even head size"
            )
        if base <= 1:
            raise OptionError("base", base, "must be greater than 1; rotary encodings use 10000")
        if init_std <= 0:
            raise OptionError("init_std", init_std, "must be positive: at 0 neither vector would get a gradient")
        self.base = base
        self.gau_a = parameter(normal(init_std), heads, head_dim)
        self.gau_b = parameter(normal(init_std), heads, head_dim)

    def table(self, distance: Tensor) -> Tensor:
        size = self.gau_a.shape[1]
        channel = torch.arange(0, size, 2, device=distance.device, dtype=precision())
        angle = precise(distance[None, :]) * self.base ** (-channel / size)[:, None]  # (D/2, R)
        a, b = precise(self.gau_a), precise(self.gau_b)
        even, odd = a * b, a[:, ::2] * b[:, 1::2] - a[:, 1::2] * b[:, ::2]
        return (even[:, ::2] + even[:, 1::2]) @ angle.cos() + odd @ angle.sin()
