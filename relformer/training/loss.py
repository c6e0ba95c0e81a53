"""Label-smoothed cross-entropy, summed over target tokens; the caller divides by the global number of them.

    loss = sum over tokens t of  log sum_v exp z_tv - (1 - s) z_t,label - s mean_v z_tv          z_t = W states_t + b

The logits of a batch are the largest tensors of a training step. Here no more than `loss.max_logits` exist at a time:
rows are taken in chunks, a chunk's gradient is made beside its loss, and padding is left out before the product.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from relformer.errors import OptionError


@dataclass(frozen=True)
class LossOptions:
    """`max_logits`: how many exist at a time; memory for speed. At 8000 tokens two million are 250 rows and 8 MB."""

    label_smoothing: float = 0.0
    max_logits: int = 2_000_000

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise OptionError("label_smoothing", self.label_smoothing, "must lie in [0, 1)", "loss")
        if self.max_logits < 1:
            raise OptionError("max_logits", self.max_logits, "must be at least 1: it counts logits", "loss")


def summed_loss(
    states: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    labels: Tensor,
    pad: int,
    options: LossOptions = LossOptions(),
) -> Tensor:
    """States (B, T, E), the output layer's weight (V, E) and bias (V,), labels (B, T): a scalar in nats.

    Under autocast the products are in its type; the softmax and all sums are at least in float32.
    """
    device = states.device.type
    product = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
    with torch.autocast(device, enabled=False):
        loss: Tensor = ChunkedLoss.apply(
            states.flatten(0, 1), weight, bias, labels.flatten(), pad, options, product, torch.is_grad_enabled()
        )
    return loss


class ChunkedLoss(torch.autograd.Function):
    """The loss of rows (N, E), with its gradients made on the way: `backward` scales them, and autograd casts them."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        pad: int,
        options: LossOptions,
        product: torch.dtype,
        training: bool,
    ) -> Tensor:
        needed = [training and each for each in ctx.needs_input_grad[:3]]
        precise = torch.promote_types(weight.dtype, torch.float32)
        by_states = torch.zeros_like(states) if needed[0] else None
        by_weight = torch.zeros_like(weight, dtype=precise) if needed[1] else None
        by_bias = torch.zeros_like(bias, dtype=precise) if needed[2] and bias is not None else None
        w, b = weight.to(product), None if bias is None else bias.to(product)
        loss = torch.zeros((), dtype=precise, device=states.device)
        tokens = labels.ne(pad).nonzero()[:, 0]
        for rows in tokens.split(max(1, options.max_logits // len(weight))):
            x = states.index_select(0, rows).to(product)
            logits = F.linear(x, w, b).to(precise)
            loss += replaced_by_gradient(logits, labels.index_select(0, rows)[:, None], options.label_smoothing)
            slope = logits.to(product)
            if by_states is not None:
                by_states.index_copy_(0, rows, (slope @ w).to(states.dtype))
            if by_weight is not None:
                add_product(by_weight, slope.T, x)
            if by_bias is not None:
                by_bias += logits.sum(0)
        ctx.save_for_backward(by_states, by_weight, by_bias)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        return *(None if g is None else g * scale for g in ctx.saved_tensors), None, None, None, None, None


def replaced_by_gradient(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """The loss of a chunk (C, V) with labels (C, 1); the logits become its gradient, in place."""
    logits -= logits.amax(-1, keepdim=True)
    credit = (1 - smoothing) * logits.gather(1, labels) + smoothing * logits.mean(-1, keepdim=True)
    total = logits.exp_().sum(-1, keepdim=True)
    logits.div_(total).sub_(smoothing / logits.shape[1])
    logits.scatter_add_(1, labels, torch.full_like(credit, smoothing - 1))
    return (total.log() - credit).sum()


def add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """total += a @ b, without a copy where all are of one type."""
    if total.dtype == a.dtype:
        total.addmm_(a, b)
    else:
        total += a @ b
