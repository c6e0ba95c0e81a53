"""The encoder-decoder Transformer (Vaswani et al. 2017, arXiv:1706.03762) around two stacks and three encoding slots.

Token embeddings are N(0, width^-0.5), multiplied by sqrt(width) on input, so that they enter the stacks with standard
deviation 1; a tied output layer reads them unscaled. `model.embedding_scale` puts the factor elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from relformer.encodings import LengthError
from relformer.encodings.parameters import Law, draw, normal, with_law
from relformer.errors import UserError
from relformer.model.cache import Cache, Encoded
from relformer.model.layers import Linear, Residual
from relformer.model.options import ModelOptions
from relformer.model.slot import Slot, build_slot
from relformer.model.stack import Decoder, Encoder


class Seq2Seq(nn.Module):
    """Source and target token ids in, logits out. Both sides are right-padded with `pad`."""

    output_bias: Tensor | None

    def __init__(
        self,
        options: ModelOptions,
        slots: Mapping[str, Slot],
        source_vocabulary: int,
        target_vocabulary: int,
        pad: int,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        self.pad = pad
        self.embed_scale = math.sqrt(options.width) if options.embedding_scale == "input" else 1.0
        self.state_scale = options.width**-0.5 if options.embedding_scale == "output" else None
        law = normal(options.embedding_std / self.embed_scale)
        self.source_embedding = embedding(source_vocabulary, options.width, law)
        self.target_embedding = (
            self.source_embedding if options.one_vocabulary else embedding(target_vocabulary, options.width, law)
        )
        self.encoder = Encoder(options, slots["encoder"], backend)
        self.decoder = Decoder(options, slots["decoder"], slots["cross"], backend)
        self.tied_by_columns: Tensor | None = None
        tied = options.tie in ("decoder", "all")
        self.output = None if tied else Linear(options.width, target_vocabulary, bias=False)
        self.register_buffer("output_bias", torch.zeros(target_vocabulary) if options.output_bias else None)

    def encode(self, source: Tensor, positions: Tensor | None = None) -> Encoded:
        """(B, S) token ids, and positions (B, S) where they come with the source -> Encoded."""
        padding = source.ne(self.pad)
        full = not torch.is_grad_enabled() and bool(padding.all())  # a look at the batch spares a mask in every layer
        x = self.source_embedding(source) * self.embed_scale
        encoded: Encoded = self.encoder(x, source, None if full else padding, positions)
        return encoded

    def start(self, source: Tensor, planned: int, positions: Tensor | None = None) -> Cache:
        """Encode (B, S) and prepare to decode at most `planned` tokens."""
        return self.decoder.start(self.encode(source, positions), planned)

    def step(self, tokens: Tensor, cache: Cache) -> Tensor:
        """The next target tokens (B, Q) after those in the cache -> logits (B, Q, V)."""
        return self.logits(self.decoded(tokens, cache))

    def decoded(self, tokens: Tensor, cache: Cache) -> Tensor:
        """The next target tokens (B, Q) -> the decoder's states (B, Q, E), which the output layer reads."""
        states: Tensor = self.decoder(self.target_embedding(tokens) * self.embed_scale, tokens, cache)
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

    def states(self, source: Tensor, target: Tensor, positions: Tensor | None = None) -> Tensor:
        """Teacher-forced pass short of the output layer: source (B, S), target from BOS on (B, T) -> (B, T, E)."""
        return self.decoded(target, self.start(source, target.shape[1], positions))

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
        for layer in (*self.encoder.layers, *self.decoder.layers):
            layer.feedforward_branch.compiled = compiled

    def checkpoint_training(self) -> None:
        """Have training keep the inputs of layers alone, for memory; a step then makes each layer's forward pass
        twice."""
        self.encoder.checkpointed = self.decoder.checkpointed = True

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
    def slots(self) -> dict[str, Slot]:
        return {"encoder": self.encoder.slot, "decoder": self.decoder.slot, "cross": self.decoder.cross}

    def position_parameters(self) -> int:
        """How many parameters belong to the encodings."""
        return sum(p.numel() for p in {p for slot in self.slots.values() for p in slot.parameters()})


def embedding(vocabulary: int, width: int, law: Law) -> nn.Embedding:
    made = nn.Embedding(vocabulary, width)
    with_law(made.weight, law)
    return made


def build_model(config: Mapping[str, Any], source_vocabulary: int, target_vocabulary: int, pad: int = 0) -> Seq2Seq:
    """The model a plain config describes, every parameter drawn by (seed, name).

    Args:
        config: `seed`, `model`, `encoding`, perhaps `decoder_encoding` and `cross_encoding`, and `attention.backend`.

    Raises:
        UserError: options that no model can have, by config path.
    """
    options = ModelOptions(**config["model"])
    if options.one_vocabulary and source_vocabulary != target_vocabulary:
        raise UserError(
            f"model.tie={options.tie} needs one vocabulary, but the source has {source_vocabulary} tokens and the "
            f"target {target_vocabulary}; choose model.tie=decoder"
        )
    model = Seq2Seq(
        options,
        build_slots(config, options, source_vocabulary, target_vocabulary),
        source_vocabulary,
        target_vocabulary,
        pad,
        config.get("attention", {}).get("backend", "auto"),
    )
    draw(model, config["seed"])
    return model


def build_slots(config: Mapping[str, Any], options: ModelOptions, source: int, target: int) -> dict[str, Slot]:
    """The three slots. An absent `decoder_encoding` is the encoder's; an absent `cross_encoding` is none."""
    own, cross = config.get("decoder_encoding"), config.get("cross_encoding") or {"name": "none"}
    path = "decoder_encoding" if own else "encoding"
    return {
        "encoder": build_slot(config["encoding"], "encoder", "encoding", options, source),
        "decoder": build_slot(own or config["encoding"], "decoder", path, options, target),
        "cross": build_slot(cross, "cross", "cross_encoding", options, target),
    }


def positions_needed(model: Seq2Seq, source_length: int, target_length: int) -> None:
    """Refuse lengths (in positions, BOS and EOS counted) beyond what the slots' encodings have, before any lookup.

    Raises:
        LengthError: naming the option to raise.
    """
    faults = []
    sides = {"encoder": (source_length, "source"), "decoder": (target_length, "target")}
    sides["cross"] = max(sides.values())  # its queries are of one side and its keys of the other
    for role, (length, side) in sides.items():
        first = model.slots[role].first
        limit = first.max_positions()
        if limit is not None and length > limit:
            faults.append(
                f"the longest {side} has {length} positions (BOS and EOS count), more than {first.path}.max_length="
                f"{limit}; set {first.path}.max_length={length} or more, or use an encoding without a table"
            )
    if faults:
        raise LengthError("\nerror: ".join(faults))
