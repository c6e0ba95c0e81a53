"""Greedy decoding, as a tensor."""

from __future__ import annotations

from torch import Tensor

from relformer.decoding.options import DecodingOptions
from relformer.decoding.search import decode
from relformer.model import Seq2Seq


def greedy(model: Seq2Seq, source: Tensor, max_length: int, bos: int, eos: int) -> Tensor:
    """The most probable next token until EOS, at most `max_length` of them.

    Args:
        source: (B, S) token ids, right-padded.

    Returns:
        (B, T) ids without BOS, EOS included where it was reached, padded behind it; T <= max_length.
    """
    if not max_length:
        return source.new_empty((len(source), 0))
    options = DecodingOptions(max_length_base=max_length, max_length_factor=0)
    found = [best for (best,) in decode(model, source, options, bos, eos)]
    rows = [each.tokens if each.reached_limit else [*each.tokens, eos] for each in found]
    longest = max(map(len, rows), default=0)
    padded = [row + [model.pad] * (longest - len(row)) for row in rows]
    return source.new_tensor(padded).reshape(len(source), longest)
