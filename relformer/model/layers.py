"""The parts of a layer that know nothing of positions: projections, norms, feed-forward, residual branches."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn
from torch.nn import functional as F

from relformer.encodings.parameters import Law, constant, with_law, xavier_uniform
from relformer.model.dropout import dropout
from relformer.model.options import GATED, ModelOptions

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}
Branch = Callable[[Tensor], Tensor]


class Linear(nn.Linear):
    """A projection whose weight has a law (Xavier uniform unless told) and whose bias starts at zero."""

    by_columns: Tensor | None = None
    """A copy of the weight, (inputs, outputs), that is read in its place: `Seq2Seq.decoding`."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True, law: Law | None = None) -> None:
        super().__init__(inputs, outputs, bias=bias)
        with_law(self.weight, law or xavier_uniform())
        if bias:
            with_law(self.bias, constant(0.0))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight if self.by_columns is None else self.by_columns.T, self.bias)


def dropped(x: Tensor, rate: float, training: bool) -> Tensor:
    """Dropout; a module for it would cost a decode step more than the little it does there."""
    return dropout(x, rate) if training and rate else x


def norm(options: ModelOptions) -> nn.Module:
    return nn.LayerNorm(options.width) if options.norm_type == "layer" else nn.RMSNorm(options.width, eps=1e-6)


class FeedForward(nn.Module):
    """Two projections with an activation between, or its gated form (Shazeer 2020, arXiv:2002.05202)."""

    def __init__(self, options: ModelOptions) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[GATED.get(options.activation, options.activation)]
        inwards = partial(Linear, options.width, options.feedforward, bias=options.feedforward_bias)
        self.inner = inwards()
        self.gate = inwards() if options.gated else None
        self.outer = Linear(options.feedforward, options.width, bias=options.feedforward_bias)
        self.dropout = options.feedforward_dropout

    def forward(self, x: Tensor) -> Tensor:
        inner = self.inner(x)
        hidden = self.activation(inner) if self.gate is None else self.activation(self.gate(x)) * inner
        return self.outer(dropped(hidden, self.dropout, self.training))


class Residual(nn.Module):
    """x + dropout(branch(norm(x))) before, or norm(x + dropout(branch(x))) after, as `model.norm` says."""

    compiled: Callable[[Residual, Tensor, Branch], Tensor] | None = None
    """`joined` by torch.compile, for training: `Seq2Seq.compile_training`."""

    def __init__(self, options: ModelOptions) -> None:
        super().__init__()
        self.before = options.norm == "pre"
        self.norm = norm(options)
        self.dropout = options.dropout

    def forward(self, x: Tensor, branch: Branch) -> Tensor:
        compiled = type(self).joined if self.compiled is None or not self.training else self.compiled
        return compiled(self, x, branch)

    def joined(self, x: Tensor, branch: Branch) -> Tensor:
        if self.before:
            return x + dropped(branch(self.norm(x)), self.dropout, self.training)
        return self.norm(x + dropped(branch(x), self.dropout, self.training))
