"""The one entry to decoding."""

from __future__ import annotations

import torch
from torch import Tensor

from relformer.decoding.beam import beam_search
from relformer.decoding.hypothesis import Hypothesis
from relformer.decoding.options import DecodingOptions
from relformer.decoding.problem import posed
from relformer.decoding.single import token_by_token
from relformer.model import Seq2Seq


@torch.inference_mode()
def decode(
    model: Seq2Seq,
    source: Tensor,
    options: DecodingOptions,
    bos: int,
    eos: int,
    prefix: Tensor | None = None,
    positions: Tensor | None = None,
    most: int | None = None,
) -> list[list[Hypothesis]]:
    """The `n_best` hypotheses of each source, best first; in evaluation mode a sentence's do not depend on the batch.

    Args:
        source: (B, S) token ids, right-padded.
        eos: a negative number where nothing ends a target but its limit.
        prefix: (B, P) token ids that the targets must begin with, right-padded, without BOS.
        positions: (B, S) of the source tokens, where they come with them.
        most: tokens that no target may exceed, whatever the options allow.

    Raises:
        UserError: limits that contradict each other or the prefix.
        LengthError: before decoding, sources or targets longer than the positions that an encoding has.
    """
    if not len(source):
        return []
    problem = posed(model, source, options, bos, eos, prefix, positions, most)
    with model.decoding():
        return (beam_search if options.beams > 1 else token_by_token)(model, problem)
