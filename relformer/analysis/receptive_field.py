"""The effective receptive field of a stack (Chi et al. 2023, arXiv:2212.10356): how far back a prediction feels.

    g(d) = mean over sentences of ||d s / d x_(t-d)||, s the last position's output along a random direction
    F(d) = sum of g up to d / sum of g

x are the token embeddings. (The plain sum of an output that a norm has centred feels nothing.) The curve of a local
model rises at once; one that uses all it is given rises evenly. Each stack is read at its last position.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relformer.analysis.probe import Probe
from relformer.analysis.watch import still
from relformer.encodings import Role
from relformer.model import Seq2Seq


def receptive_field(model: Seq2Seq, probe: Probe) -> dict[Role, NDArray[np.float32]]:
    """F of each stack by distance, as many as it reads tokens, growing to 1."""
    with still(model), torch.enable_grad():
        inputs = model.embedded(probe.source, probe.target)
        direction = torch.randn(inputs["decoder"][0].shape[-1], device=probe.source.device)
        cache = model.opened(probe.source, probe.target.shape[1])
        found: dict[Role, NDArray[np.float32]] = {}
        for role, (embedded, tokens) in inputs.items():
            x, stack = embedded.detach().requires_grad_(), model.stacks[role]
            states = stack(x, tokens, None).states if role == "encoder" else stack(x, tokens, cache)
            found[role] = cumulative(torch.autograd.grad((states[:, -1] @ direction).sum(), x)[0])
        return found


def cumulative(gradient: Tensor) -> NDArray[np.float32]:
    """From gradients at each token (B, L, E): the share that lies within each distance of the last, (L,)."""
    norms = gradient.norm(dim=-1)
    nearest_first = (norms / norms.sum(-1, keepdim=True)).mean(0).flip(0)
    return nearest_first.cumsum(0).float().cpu().numpy()
