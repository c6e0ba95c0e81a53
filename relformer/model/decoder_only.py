"""The decoder-only Transformer: one stack without cross-attention reads source and target as one sequence.

    x_1 .. x_S  BOS  y_1 .. y_T     the target's BOS is the separator; the loss is of y and EOS alone

The model of the papers on length generalisation (Press et al. 2022; Chi et al. 2022; Kazemnejad et al. 2023,
arXiv:2305.19466), who let a source token see only those before it. `model.prefix=visible` lets it see its whole source
(Raffel et al. 2020, arXiv:1910.10683), which is then a bag to a model without positions. A target begins where its own
source ends, whatever the batch: a whole pass puts the padding of the source behind its target, where no token sees it,
and decoding takes sources of one length at a time. So positions stay ranges, and every encoding of a decoder, by
distance, by count or by gate, serves as it does there.
"""

from __future__ import annotations

import torch
from torch import Tensor

from relformer.encodings import Role
from relformer.model.cache import Cache
from relformer.model.seq2seq import Seq2Seq


class DecoderOnly(Seq2Seq):
    """One stack, whose cache begins with the source."""

    def embedded(self, source: Tensor, target: Tensor) -> dict[Role, tuple[Tensor, Tensor]]:
        x = torch.cat([self.source_embedding(source), self.target_embedding(target)], dim=1) * self.embed_scale
        order = torch.cat([source.eq(self.pad), torch.zeros_like(target, dtype=torch.bool)], dim=1)
        order = order.long().argsort(dim=1, stable=True)  # the source's padding last, all else as it was
        tokens = torch.cat([source, target], dim=1).gather(1, order)
        return {"decoder": (x.gather(1, order[:, :, None].expand_as(x)), tokens)}

    def opened(self, source: Tensor, planned: int, positions: Tensor | None = None) -> Cache:
        if positions is not None:
            raise ValueError("positions that come with a source do not say where its target begins")
        cache = self.decoder.empty(source.shape[0], source.shape[1] + planned, source.device)
        cache.prefix = source.ne(self.pad).sum(1) if self.visible_prefix else None
        return cache

    def start(self, source: Tensor, planned: int, positions: Tensor | None = None) -> Cache:
        """Read the sources (B, S) and prepare to decode at most `planned` tokens.

        Raises:
            ValueError: sources of several lengths, whose targets would begin at several positions.
        """
        if bool(source.eq(self.pad).any()):
            raise ValueError("a decoder-only model decodes sources of one length at a time; leave out the padding")
        cache = self.opened(source, planned, positions)
        self.decoder(self.source_embedding(source) * self.embed_scale, source, cache)
        cache.prefix = None
        return cache

    def states(self, source: Tensor, target: Tensor, positions: Tensor | None = None) -> Tensor:
        x, tokens = self.embedded(source, target)["decoder"]
        states: Tensor = self.decoder(x, tokens, self.opened(source, target.shape[1], positions))
        places = source.ne(self.pad).sum(1, keepdim=True) + torch.arange(target.shape[1], device=target.device)
        return self.scaled(states.gather(1, places[:, :, None].expand(-1, -1, states.shape[-1])))

    def lengths(self, source: int, target: int) -> dict[Role, tuple[int, str]]:
        return {"decoder": (source + target, "source with its target")}
