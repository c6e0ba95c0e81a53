"""Greedy decoding, step by step through the cache."""

from __future__ import annotations

import torch
from torch import Tensor

from relformer.model import Seq2Seq


@torch.no_grad()
def greedy(model: Seq2Seq, source: Tensor, max_length: int, bos: int, eos: int) -> Tensor:
    """The most probable next token until EOS, at most `max_length` of them.

    Args:
        source: (B, S) token ids, right-padded.

    Returns:
        (B, T) ids without BOS, EOS included where it was reached, padded behind it; T <= max_length.
    """
    cache = model.start(source, max_length)
    tokens = source.new_full((len(source), 1), bos)
    done = source.new_zeros(len(source), dtype=torch.bool)
    out = []
    for _ in range(max_length):
        tokens = model.step(tokens, cache).argmax(-1).masked_fill(done[:, None], model.pad)
        out.append(tokens)
        done |= tokens[:, 0] == eos
        if bool(done.all()):
            break
    return torch.cat(out, dim=1) if out else source.new_empty((len(source), 0))
