"""Drawing the next token: temperature, then the k most probable, then the nucleus of those (Holtzman et al. 2020,
arXiv:1904.09751).

Random numbers belong to a sentence: they follow from the seed and the source, so that a sentence's sample does not
depend on the batch that it stands in.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from relformer.encodings.parameters import seed_of


def drawn(logits: Tensor, uniform: Tensor, temperature: float, top_k: int | None, top_p: float | None) -> Tensor:
    """One token a row, by inverting the cumulative distribution: logits (N, V), uniform (N,) in [0, 1) -> (N,).

    The nucleus is the smallest set of most probable tokens whose probabilities sum to `top_p` or more.
    """
    size = logits.shape[-1] if top_k is None else min(top_k, logits.shape[-1])
    values, tokens = logits.topk(size)
    probabilities = (values / temperature).softmax(-1, dtype=torch.float64)
    reached = probabilities.cumsum(-1)
    inside = probabilities > 0
    if top_p is not None:
        inside &= reached - probabilities < top_p
    last = inside.sum(-1, keepdim=True) - 1
    target = uniform[:, None].double() * reached.gather(-1, last)
    index = torch.searchsorted(reached, target, right=True).minimum(last)
    return tokens.gather(-1, index)[:, 0]


def uniforms(source: Tensor, pad: int, seed: int, steps: Sequence[int], samples: int) -> Tensor:
    """Numbers in [0, 1) for so many steps of each source (B, S): (B, T, samples)."""
    made = torch.zeros(len(source), max(steps), samples)
    for row, (tokens, count) in enumerate(zip(source.tolist(), steps, strict=True)):
        generator = torch.Generator().manual_seed(seed_of(seed, *(token for token in tokens if token != pad)))
        made[row, :count] = torch.rand(count, samples, generator=generator)
    return made.to(source.device)
