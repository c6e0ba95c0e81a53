"""Models ready to decode a batch: ours and, where installed, other people's, all with a relative bias.

Nothing ends a target, so that all write equally many tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from relformer.benchmark import peers
from relformer.benchmark.peers import BOS, NO_EOS, PEERS
from relformer.decoding import DecodingOptions, decode

Search = Callable[[int], Callable[[], object]]
"""From a number of beams to a run that decodes the batch with them."""


@dataclass(frozen=True)
class Competitor:
    """A model with the searches it has; `around` is held while it decodes batches, as it is around a test set."""

    name: str
    model: nn.Module
    search: Search
    beam: bool = True
    around: Callable[[], AbstractContextManager[None]] = nullcontext

    @property
    def parameters(self) -> int:
        return sum(p.numel() for p in self.model.parameters())


def competitors(source: Tensor, new_tokens: int) -> list[Competitor]:
    """Ours first, then the peers that are installed."""
    made = [ours(source, new_tokens)]
    if peers.installed("transformers"):
        made.append(hf_t5(source, new_tokens))
    if peers.installed("x_transformers"):
        made.append(x_transformers(source, new_tokens))
    return made


def ours(source: Tensor, new_tokens: int) -> Competitor:
    model = peers.ours("t5").eval().to(source.device)

    def search(beams: int) -> Callable[[], object]:
        options = DecodingOptions(beams=beams, max_length_base=new_tokens, max_length_factor=0.0)
        return lambda: decode(model, source, options, BOS, NO_EOS)

    return Competitor("relformer", model, search, around=model.decoding)


def hf_t5(source: Tensor, new_tokens: int) -> Competitor:
    model = peers.hf_t5().eval().to(source.device)
    model.generation_config.eos_token_id = None

    def search(beams: int) -> Callable[[], object]:
        return lambda: model.generate(source, max_new_tokens=new_tokens, do_sample=False, num_beams=beams)

    return Competitor(PEERS["transformers"], model, search)


def x_transformers(source: Tensor, new_tokens: int) -> Competitor:
    model = peers.x_transformers(source.shape[1], new_tokens + 1, {"rel_pos_bias": True})
    model.eval().to(source.device)
    start = torch.full((len(source), 1), BOS, device=source.device)

    def search(beams: int) -> Callable[[], object]:
        return lambda: model.generate(source, start, new_tokens, temperature=0.0)

    return Competitor(PEERS["x_transformers"], model, search, beam=False)
