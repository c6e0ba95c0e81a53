"""The Transformer (Vaswani et al. 2017, arXiv:1706.03762) from sources to targets: what models of two stacks and of one
(`relformer.model.decoder_only`) have in common, and the encoder-decoder with its three encoding slots.

Token embeddings are N(0, width^-0.5), multiplied by sqrt(width) on input, so that they enter the stacks with standard
deviation 1; a tied output layer reads them unscaled. `model.embedding_scale` puts the factor elsewhere.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from relformer.encodings import Role
from relformer.encodings.parameters import Law, normal, with_law
from relformer.model.cache import Cache, Encoded
from relformer.model.layers import Linear, Residual
from relformer.model.options import ModelOptions
from relformer.model.slot import Slot
from relformer.model.stack import Decoder, Encoder, Stack


class Seq2Seq(nn.Module, ABC):
    """Source and target token ids in, logits out. Both sides are right-padded with `pad`."""

    decoder: Decoder
    output_bias: Tensor | None

    def __init__(
        self,
        options: ModelOptions,
        stacks: Mapping[Role, Stack],
        source_vocabulary: int,
        target_vocabulary: int,
        pad: int,
    ) -> None:
        super().__init__()
        self.pad = pad
        self.visible_prefix = options.visible_prefix
        self.embed_scale = math.sqrt(options.width) if options.embedding_scale == "input" else 1.0
        self.state_scale = options.width**-0.5 if options.embedding_scale == "output" else None
        law = normal(options.embedding_std / self.embed_scale)
        self.source_embedding = embedding(source_vocabulary, options.width, law)
        self.target_embedding = (
            self.source_embedding if options.one_vocabulary else embedding(target_vocabulary, options.width, law)
        )
        self.stacks = dict(stacks)
        for role, stack in stacks.items():
            self.add_module(role, stack)
        self.tied_by_columns: Tensor | None = None
        tied = options.tie in ("decoder", "all")
        self.output = None if tied else Linear(options.width, target_vocabulary, bias=False)
        self.register_buffer("output_bias", torch.zeros(target_vocabulary) if options.output_bias else None)

    @abstractmethod
    def embedded(self, source: Tensor, target: Tensor) -> dict[Role, tuple[Tensor, Tensor]]:
        """What each stack reads of sources (B, S) and targets (B, T): its embedded tokens (B, L, E), and these."""

    @abstractmethod
    def opened(self, source: Tensor, planned: int, positions: Tensor | None = None) -> Cache:
        """The cache that the decoder stack begins with: nothing that `embedded` gives it has gone in yet.

        Sources are (B, S), at positions (B, S) where these come with them; targets have at most `planned` tokens.
        """

    def start(self, source: Tensor, planned: int, positions: Tensor | None = None) -> Cache:
        """Read sources (B, S) and prepare to decode at most `planned` tokens."""
        return self.opened(source, planned, positions)

    @abstractmethod
    def states(self, source: Tensor, target: Tensor, positions: Tensor | None = None) -> Tensor:
        """Teacher-forced pass short of the output layer: source (B, S), target from BOS on (B, T) -> (B, T, E)."""

    @abstractmethod
    def lengths(self, source: int, target: int) -> dict[Role, tuple[int, str]]:
        """Of each slot the positions it needs for so many of each side, and whose they are."""

    def step(self, tokens: Tensor, cache: Cache) -> Tensor:
        """The next target tokens (B, Q) after those in the cache -> logits (B, Q, V)."""
        return self.logits(self.decoded(tokens, cache))

    def decoded(self, tokens: Tensor, cache: Cache) -> Tensor:
        """The next target tokens (B, Q) -> the decoder's states (B, Q, E), which the output layer reads."""
        states: Tensor = self.decoder(self.target_embedding(tokens) * self.embed_scale, tokens, cache)
        return self.scaled(states)

    def scaled(self, states: Tensor) -> Tensor:
        """The decoder's output as the output layer reads it."""
        return states if self.state_scale is None else states * self.state_scale

    def logits(self, states: Tensor) -> Tensor:
        """The output layer: (B, Q, E) -> (B, Q, V)."""
        if self.output is not None:
            logits: Tensor = self.output(states)
            return logits if self.output_bias is None else logits + self.output_bias
        columns = self.tied_by_columns
        return F.linear(states, self.target_embedding.weight if columns is None else columns.T, self.output_bias)

    @property
    def head(self) -> tuple[Tensor, Tensor | None]:
        """Weight (V, E) and bias (V,) of the output layer, for a loss that makes the logits itself."""
        return (self.target_embedding if self.output is None else self.output).weight, self.output_bias

    def forward(self, source: Tensor, target: Tensor, positions: Tensor | None = None) -> Tensor:
        """Teacher-forced pass: source (B, S), target from BOS on (B, T) -> logits (B, T, V)."""
        return self.logits(self.states(source, target, positions))

    def compile_training(self, **options: Any) -> None:
        """Compile what training runs of each layer's feed-forward half: norm, projections, dropout and residual.

        Attention has kernels of its own. Lengths are variables, so that one graph serves all; names and values of
        parameters stay. The compiler draws dropout by a generator of its own, seeded by torch's. `options` are
        torch.compile's.
        """
        compiled = torch.compile(Residual.joined, dynamic=True, **options)
        for stack in self.stacks.values():
            for layer in stack.layers:
                layer.feedforward_branch.compiled = compiled  # type: ignore[union-attr]

    def checkpoint_training(self) -> None:
        """Have training keep the inputs of layers alone, for memory; a step then makes each layer's forward pass
        twice."""
        for stack in self.stacks.values():
            stack.checkpointed = True

    @contextmanager
    def decoding(self) -> Iterator[None]:
        """Decode within this: on a CPU the decoder then reads copies of its weights that are stored by columns.

        With some tens of rows, as in a step, products with them take a fifth to a half less. Around many batches the
        copies are made once; the weights must not change meanwhile.
        """
        weight = self.target_embedding.weight
        projections = [part for part in (*self.decoder.modules(), self.output) if isinstance(part, Linear)]
        begun = any(projection.by_columns is not None for projection in projections)
        if begun or weight.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
            yield
            return
        for projection in projections:
            projection.by_columns = projection.weight.detach().T.contiguous()
        if self.output is None:
            self.tied_by_columns = weight.detach().T.contiguous()
        try:
            yield
        finally:
            self.tied_by_columns = None
            for projection in projections:
                projection.by_columns = None

    @property
    def slots(self) -> dict[Role, Slot]:
        slots = {role: stack.slot for role, stack in self.stacks.items()}
        return slots if self.decoder.cross is None else slots | {"cross": self.decoder.cross}

    def position_parameters(self) -> int:
        """How many parameters belong to the encodings."""
        return sum(p.numel() for p in {p for slot in self.slots.values() for p in slot.parameters()})


class EncoderDecoder(Seq2Seq):
    """Two stacks: the decoder reads the encoder's states through cross-attention."""

    encoder: Encoder

    def embedded(self, source: Tensor, target: Tensor) -> dict[Role, tuple[Tensor, Tensor]]:
        return {
            "encoder": (self.source_embedding(source) * self.embed_scale, source),
            "decoder": (self.target_embedding(target) * self.embed_scale, target),
        }

    def encode(self, source: Tensor, positions: Tensor | None = None) -> Encoded:
        """(B, S) token ids, and positions (B, S) where they come with the source -> Encoded."""
        padding = source.ne(self.pad)
        full = not torch.is_grad_enabled() and bool(padding.all())  # a look at the batch spares a mask in every layer
        x = self.source_embedding(source) * self.embed_scale
        encoded: Encoded = self.encoder(x, source, None if full else padding, positions)
        return encoded

    def opened(self, source: Tensor, planned: int, positions: Tensor | None = None) -> Cache:
        return self.decoder.start(self.encode(source, positions), planned)

    def states(self, source: Tensor, target: Tensor, positions: Tensor | None = None) -> Tensor:
        return self.decoded(target, self.start(source, target.shape[1], positions))

    def lengths(self, source: int, target: int) -> dict[Role, tuple[int, str]]:
        sides: dict[Role, tuple[int, str]] = {"encoder": (source, "source"), "decoder": (target, "target")}
        return sides | {"cross": max(sides.values())}  # its queries are of one side and its keys of the other


def embedding(vocabulary: int, width: int, law: Law) -> nn.Embedding:
    made = nn.Embedding(vocabulary, width)
    with_law(made.weight, law)
    return made
