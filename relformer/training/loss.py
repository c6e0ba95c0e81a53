"""Label-smoothed cross-entropy, summed over target tokens; the caller divides by the global number of them."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F


def summed_loss(logits: Tensor, labels: Tensor, pad: int, label_smoothing: float = 0.0) -> Tensor:
    """Logits (B, T, V), labels (B, T): a scalar in nats, padding left out."""
    return F.cross_entropy(
        logits.float().flatten(0, 1),
        labels.flatten(),
        ignore_index=pad,
        reduction="sum",
        label_smoothing=label_smoothing,
    )
