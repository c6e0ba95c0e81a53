"""A small perceptron that turns distances into biases. Not an encoding of its own."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional as F

from relformer.encodings.parameters import parameter, uniform
from relformer.encodings.precision import precise


class Perceptron(nn.Module):
    """Affine maps of the given sizes with an activation between; weights and biases start at U(+-inputs^-0.5)."""

    def __init__(self, sizes: list[int], activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.activation = activation
        self.weights = nn.ParameterList(parameter(uniform(a**-0.5), b, a) for a, b in pairwise(sizes))
        self.biases = nn.ParameterList(parameter(uniform(a**-0.5), b) for a, b in pairwise(sizes))

    def forward(self, x: Tensor) -> Tensor:
        """(..., sizes[0]) -> (..., sizes[-1]), in float32."""
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = F.linear(x if number == 0 else self.activation(x), precise(weight), precise(bias))
        return x
