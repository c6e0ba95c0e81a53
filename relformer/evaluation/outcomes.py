"""What became of each example in one teacher-forced pass: the only place where exact match is defined.

Greedy decoding equals the reference exactly when the teacher-forced argmax does at every position, EOS included, so
exact match needs no decoding loop. Its three forms:

    free         every token and the EOS are right
    oracle EOS   EOS is masked until the reference's length and then forced: every token is right
    prefix       the share of the reference (EOS included) before the first error

Without EOS in the data (`data.eos=false`) nothing says where to stop, and the first two are one.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

COLUMNS = (
    "index",
    "source_length",
    "target_length",
    "labels",
    "exact_match",
    "exact_match_oracle_eos",
    "first_error",
    "correct_tokens",
    "loss",
)
"""Lengths in tokens without BOS and EOS; `labels` counts what is predicted, EOS included where the data have one;
`first_error` is the number of labels before the first wrong one; `loss` in nats."""


def judge(logits: Tensor, labels: Tensor, index: Tensor, source_length: Tensor, pad: int, eos: int) -> Tensor:
    """Logits (B, T, V) against padded labels (B, T): (B, len(COLUMNS)) float32."""
    real = labels != pad
    tokens = real & (labels != eos)
    right = (logits.argmax(-1) == labels) | ~real
    without_eos = logits.clone()
    without_eos[..., eos] = float("-inf")
    right_by_length = (without_eos.argmax(-1) == labels) | ~tokens
    before_error = (right.cumprod(-1).bool() & real).sum(-1)
    loss = F.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), ignore_index=pad, reduction="none")
    columns = (
        index,
        source_length,
        tokens.sum(-1),
        real.sum(-1),
        right.all(-1),
        right_by_length.all(-1),
        before_error,
        (right & real).sum(-1),
        loss.view_as(labels).sum(-1),
    )
    return torch.stack([column.float() for column in columns], dim=-1)
