"""The effective receptive field of a stack (Chi et al. 2023, arXiv:2212.10356): how far back a prediction feels.

    g(d) = mean over sentences of ||d s / d x_(t-d)||, s the last position's output along a random direction
    F(d) = sum of g up to d / sum of g

x are the token embeddings. (The plain sum of an output that a norm has centred feels nothing.) The curve of a local
model rises at once; one that uses all it is given rises evenly. Both stacks are read at their last position.
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
    """F by distance, (S,) and (T,), growing to 1."""
    with still(model), torch.enable_grad():
        encoded = model.encode(probe.source)
        source = (model.source_embedding(probe.source) * model.embed_scale).detach().requires_grad_()
        outputs = model.encoder(source, probe.source, None).states[:, -1]
        direction = torch.randn(outputs.shape[-1], device=outputs.device)
        field = cumulative(torch.autograd.grad((outputs @ direction).sum(), source)[0])
        target = (model.target_embedding(probe.target) * model.embed_scale).detach().requires_grad_()
        states = model.decoder(target, probe.target, model.decoder.start(encoded, probe.target.shape[1]))[:, -1]
        return {"encoder": field, "decoder": cumulative(torch.autograd.grad((states @ direction).sum(), target)[0])}


def cumulative(gradient: Tensor) -> NDArray[np.float32]:
    """From gradients at each token (B, L, E): the share that lies within each distance of the last, (L,)."""
    norms = gradient.norm(dim=-1)
    nearest_first = (norms / norms.sum(-1, keepdim=True)).mean(0).flip(0)
    return nearest_first.cumsum(0).float().cpu().numpy()
