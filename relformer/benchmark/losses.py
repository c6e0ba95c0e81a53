"""The one place where benchmarks call relformer's training loss: for a whole model, and for its head alone."""

from __future__ import annotations

from torch import Tensor

from relformer.benchmark.peers import PAD
from relformer.data.batching import Batch
from relformer.model import Seq2Seq
from relformer.training.loss import LossOptions, summed_loss


def training_loss(model: Seq2Seq, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
    """What a training step differentiates: nats a target token."""
    states = model.states(batch.source, batch.target, batch.positions)
    return summed_loss(states, *model.head, batch.labels, PAD, LossOptions(label_smoothing)) / batch.tokens


def head_loss(states: Tensor, weight: Tensor, labels: Tensor, label_smoothing: float) -> Tensor:
    """Of states (B, T, E), an output layer (V, E) and labels (B, T): nats, summed."""
    return summed_loss(states, weight, None, labels, PAD, LossOptions(label_smoothing))
