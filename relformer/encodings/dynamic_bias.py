"""A perceptron of the signed distance: log-CPB of Swin v2 (Liu et al. 2021, arXiv:2111.09883) for sequences.

    score(i, j) += MLP(sgn(i - j) ln(1 + |i - j|))_h        hidden layers of SiLU

in the form of x-transformers' DynamicPositionBias, one network for all layers. Swin v2 itself has one hidden layer of
512 with ReLU, distances normalised by the window, and 16 sigmoid(.) at the end. With `log_distance: false` the network
reads i - j as it is and its values at long distances grow without a limit.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from relformer.encodings.base import PositionalEncoding
from relformer.encodings.perceptron import Perceptron
from relformer.encodings.precision import precise
from relformer.errors import OptionError
from relformer.registry import register


@register(
    "dynamic_bias",
    family="bias",
    changes="logits, by distance",
    learned="yes",
    beyond="extrapolates",
    paper="2111.09883",
)
class DynamicBias(PositionalEncoding):
    def __init__(
        self, heads: int, width: int, *, depth: int = 2, hidden: int | None = None, log_distance: bool = True
    ) -> None:
        super().__init__()
        if depth < 1:
            raise OptionError("depth", depth, "must be at least 1: the number of hidden layers")
        if hidden is not None and hidden < 1:
            raise OptionError("hidden", hidden, "must be at least 1; null means a quarter of the model's width")
        self.log_distance = log_distance
        size = max(width // 4, 1) if hidden is None else hidden
        self.distance_mlp = Perceptron([1, *[size] * depth, heads], F.silu)

    def table(self, distance: Tensor) -> Tensor:
        x = precise(distance)
        if self.log_distance:
            x = x.sign() * torch.log1p(x.abs())
        out: Tensor = self.distance_mlp(x[:, None])
        return out.T
