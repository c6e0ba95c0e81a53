"""The one entry to decoding."""

from __future__ import annotations

import torch
from torch import Tensor

from relformer.decoding.beam import beam_search
from relformer.decoding.hypothesis import Hypothesis
from relformer.decoding.options import DecodingOptions
from relformer.decoding.problem import posed
from relformer.decoding.single import token_by_token
from relformer.model import DecoderOnly, Seq2Seq


@torch.inference_mode()
def decode(
    model: Seq2Seq,
    source: Tensor,
    options: DecodingOptions,
    bos: int,
    eos: int,
    prefix: Tensor | None = None,
    positions: Tensor | None = None,
    fitting: bool = False,
) -> list[list[Hypothesis]]:
    """The `n_best` hypotheses of each source, best first; in evaluation mode a sentence's do not depend on the batch.

    Args:
        source: (B, S) token ids, right-padded.
        eos: a negative number where nothing ends a target but its limit.
        prefix: (B, P) token ids that the targets must begin with, right-padded, without BOS.
        positions: (B, S) of the source tokens, where they come with them.
        fitting: whether no target may exceed the positions that the encodings have, whatever the options allow.

    Raises:
        UserError: limits that contradict each other or the prefix.
        LengthError: before decoding, sources or targets longer than the positions that an encoding has.
    """
    if not len(source):
        return []
    if isinstance(model, DecoderOnly) and bool(source.eq(model.pad).any()):
        return by_length(model, source, options, bos, eos, prefix, positions, fitting)
    problem = posed(model, source, options, bos, eos, prefix, positions, fitting)
    with model.decoding():
        return (beam_search if options.beams > 1 else token_by_token)(model, problem)


def by_length(
    model: DecoderOnly,
    source: Tensor,
    options: DecodingOptions,
    bos: int,
    eos: int,
    prefix: Tensor | None,
    positions: Tensor | None,
    fitting: bool,
) -> list[list[Hypothesis]]:
    """`decode`, for sources of one length after another: a target begins where its source ends."""
    found: list[list[Hypothesis]] = [[] for _ in source]
    lengths = source.ne(model.pad).sum(1)
    with model.decoding():
        for length in lengths.unique().tolist():
            rows = lengths.eq(length).nonzero()[:, 0]
            forced, placed = (None if each is None else each[rows] for each in (prefix, positions))
            alike = decode(model, source[rows, :length], options, bos, eos, forced, placed, fitting)
            for row, hypotheses in zip(rows.tolist(), alike, strict=True):
                found[row] = hypotheses
    return found
