"""The encoder and decoder stacks. Each owns the encodings of its slots and makes the spans, in one place.

A full pass of the decoder is a decode step with all tokens at once, so cached and uncached decoding are one code path.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from relformer.encodings import LengthError
from relformer.encodings.span import Positions, as_tensor, part
from relformer.model.attention import Attention
from relformer.model.cache import Cache, Encoded, GrowingMemory, Memory
from relformer.model.layers import FeedForward, Residual, dropped, norm
from relformer.model.options import ModelOptions
from relformer.model.slot import Placed, Slot


class Stack(nn.Module):
    """What runs the layers of the encoder and of the decoder."""

    slot: Slot
    layers: nn.ModuleList
    embedding_norm: nn.Module
    checkpointed = False
    """Whether training keeps a layer's input alone and makes the rest anew in the backward pass (Chen et al. 2016,
    arXiv:1604.06174); dropout draws the same again."""

    def run(self, layer: nn.Module, *inputs: object) -> Tensor:
        if not (self.checkpointed and self.training and torch.is_grad_enabled()):
            return layer(*inputs)

        def alone(*inputs: object) -> Tensor:
            made: Tensor = layer(*(each.unread() if isinstance(each, Placed) else each for each in inputs))
            return made

        states: Tensor = checkpoint(alone, *inputs, use_reentrant=False)
        return states


class EncoderLayer(nn.Module):
    def __init__(self, options: ModelOptions, backend: str) -> None:
        super().__init__()
        self.attention = Attention(options, backend)
        self.feedforward = FeedForward(options)
        self.attention_branch, self.feedforward_branch = Residual(options), Residual(options)

    def forward(self, x: Tensor, placed: Placed, padding: Tensor | None) -> Tensor:
        def attention(x: Tensor) -> Tensor:
            return self.attention(x, self.attention.memory(x, placed), placed, padding, causal=False)

        x = self.attention_branch(x, attention)
        return self.feedforward_branch(x, self.feedforward)


class DecoderLayer(nn.Module):
    """With cross-attention where there is an encoder."""

    def __init__(self, options: ModelOptions, backend: str) -> None:
        super().__init__()
        self.attention = Attention(options, backend)
        self.cross_attention = None if options.decoder_only else Attention(options, backend)
        self.feedforward = FeedForward(options)
        self.attention_branch = Residual(options)
        self.cross_branch = None if options.decoder_only else Residual(options)
        self.feedforward_branch = Residual(options)

    def forward(self, x: Tensor, placed: Placed, cross: Placed | None, cache: Cache, number: int) -> Tensor:
        def attention(x: Tensor) -> Tensor:
            memory = cache.own[number].extended(self.attention.memory(x, placed), cache.length)
            # Right padding lies in the future.
            return self.attention(x, memory, placed, padding=None, causal=True, prefix=cache.prefix)

        def cross_attention(x: Tensor) -> Tensor:
            assert self.cross_attention is not None and cross is not None and cache.encoded is not None
            memory = cache.cross[number]
            abreast = x.reshape(memory.v.shape[0], -1, x.shape[-1])  # (N, Q, E) -> (B, beams * Q, E)
            return self.cross_attention(abreast, memory, cross, cache.encoded.padding, causal=False).view_as(x)

        x = self.attention_branch(x, attention)
        if self.cross_branch is not None:
            x = self.cross_branch(x, cross_attention)
        return self.feedforward_branch(x, self.feedforward)


def layers(
    kind: type[EncoderLayer] | type[DecoderLayer], depth: int, options: ModelOptions, backend: str
) -> nn.ModuleList:
    """The layers of a stack; with `model.share_layers` one, as often as it runs: caches go by its place, not by it."""
    made = [kind(options, backend) for _ in range(1 if options.share_layers else depth)]
    return nn.ModuleList(made * depth if options.share_layers else made)


class Encoder(Stack):
    def __init__(self, options: ModelOptions, slot: Slot, backend: str) -> None:
        super().__init__()
        self.slot = slot
        self.dropout = options.dropout
        self.embedding_norm = norm(options) if options.embedding_norm else nn.Identity()
        self.layers = layers(EncoderLayer, options.encoder_layers, options, backend)
        self.norm = norm(options) if options.norm == "pre" else nn.Identity()

    def forward(self, x: Tensor, tokens: Tensor, padding: Tensor | None, given: Tensor | None = None) -> Encoded:
        """Embedded source (B, S, E), its tokens and padding (B, S), perhaps positions given with it (B, S) ->
        Encoded."""
        batch, length = tokens.shape
        positions = self.slot.positions(length, batch, x.device) if given is None else given
        x = self.embedding_norm(self.slot.first.embed(x, tokens, positions))
        x = dropped(x, self.dropout, self.training)
        placed = self.slot.place(positions, positions, positions, self.slot.span_length(positions), x.device)
        states = x
        for layer, where in zip(self.layers, placed, strict=True):
            states = self.run(layer, states, where, padding)
        states = self.norm(states)
        return Encoded(states, padding, positions, states + x if self.slot.first.also_in_cross_value else states)


class Decoder(Stack):
    def __init__(self, options: ModelOptions, slot: Slot, cross: Slot | None, backend: str) -> None:
        super().__init__()
        self.slot, self.cross = slot, cross
        self.dropout = options.dropout
        self.embedding_norm = norm(options) if options.embedding_norm else nn.Identity()
        self.layers = layers(DecoderLayer, options.decoder_layers, options, backend)
        self.norm = norm(options) if options.norm == "pre" else nn.Identity()

    def empty(self, batch: int, planned: int, device: torch.device) -> Cache:
        """A cache for at most `planned` tokens of each of `batch` sequences: their positions are drawn."""
        positions = self.slot.positions(planned, batch, device)
        own = [GrowingMemory(planned) for _ in self.layers]
        return Cache(positions, planned, own, span_length=self.slot.span_length(positions))

    def start(self, encoded: Encoded, planned: int) -> Cache:
        """A cache for at most `planned` target tokens, with cross keys and values projected once."""
        assert self.cross is not None
        source, states = encoded.positions, encoded.states
        cache = self.empty(states.shape[0], planned, states.device)
        # One for the keys, made here, and the queries of every step.
        cache.cross_span_length = self.cross.span_length(source, cache.positions)
        placed = self.cross.place(source, source, source, cache.cross_span_length, states.device)
        cache.encoded = encoded
        cache.cross = [cross_memory(layer, encoded, where) for layer, where in zip(self.layers, placed, strict=True)]
        return cache

    def forward(self, x: Tensor, tokens: Tensor, cache: Cache) -> Tensor:
        """The next embedded tokens (B, Q, E) after those in the cache, which it extends: (B, Q, E).

        Raises:
            LengthError: more tokens than the cache was planned for; their positions were never drawn.
        """
        rows, queries = tokens.shape
        stop = cache.length + queries
        if stop > cache.planned:
            raise LengthError(f"decoding reached {stop} tokens, but was planned for {cache.planned}; start with more")
        seen = part(cache.positions, 0, stop)
        new = part(cache.positions, cache.length, stop) if cache.length else seen
        if isinstance(cache.positions, range) and cache.tables is None and queries < cache.planned:
            cache.tables = self.slot.tables(cache.positions, x.device)
        x = dropped(self.embedding_norm(self.slot.first.embed(x, tokens, new)), self.dropout, self.training)
        placed = self.slot.place(new, seen, new, cache.span_length, x.device, cache.tables)
        crossed = self.crossed(new, rows, cache, x.device)
        for number, (layer, own, cross) in enumerate(zip(self.layers, placed, crossed, strict=True)):
            x = self.run(layer, x, own, cross, cache, number)
        cache.length = stop
        return self.norm(x)

    def crossed(self, new: Positions, rows: int, cache: Cache, device: torch.device) -> Sequence[Placed | None]:
        """Where cross-attention's encodings act in a step of `rows` rows; None a layer where there is none."""
        if self.cross is None:
            return [None] * len(self.layers)
        assert cache.encoded is not None
        source = cache.encoded.positions
        asking = abreast(new, rows // cache.encoded.states.shape[0], device)
        return self.cross.place(asking, source, source, cache.cross_span_length, device)


def abreast(positions: Positions, beams: int, device: torch.device) -> Positions:
    """The positions of a sentence's beams, whose queries cross-attention takes side by side: (B | 1, beams * Q)."""
    if beams == 1:
        return positions
    of_rows = as_tensor(positions, device)  # (N | 1, Q)
    return of_rows.repeat(1, beams) if len(of_rows) == 1 else of_rows.reshape(-1, beams * of_rows.shape[1])


def cross_memory(layer: nn.Module, encoded: Encoded, where: Placed) -> Memory:
    assert isinstance(layer, DecoderLayer) and layer.cross_attention is not None
    return layer.cross_attention.memory(encoded.states, where, encoded.values)
