"""The one interface of positional encodings: where position enters is said by which hooks a class overrides.

Shapes: B batch, H heads, Q queries, K keys, D head size, E model size, T tokens, R distinct distances, F features.
Order in attention: query and key; scaled product; + table + bias; score; mask; softmax; dropout; @ v; + value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from relformer.encodings.precision import unlowered
from relformer.encodings.span import Positions, Span
from relformer.errors import UserError

Role = Literal["encoder", "decoder", "cross"]

Projection = Callable[[Tensor], Tensor]
"""A layer's own query or key projection, bias and split into heads included: (R, E) -> (H, R, D)."""


class LengthError(UserError):
    """A sequence longer than the positions an encoding has."""


class Shortage(NamedTuple):
    """The config path of an option, how many positions it gives, and how many it would have to."""

    option: str
    limit: int
    needed: int


class PositionalEncoding(nn.Module):
    """Base of all encodings; as it stands it adds no position at all.

    A subclass overrides the hooks through which it acts and nothing else. Attention never asks for a name or a type.
    """

    keys: Literal["after", "before"] = "after"
    """The cache stores ``key(k)`` ("after"), or raw k, and ``key`` runs on all of them each step ("before")."""
    share: ClassVar[Literal["stack", "layer"]] = "stack"
    """The published choice: one module for all layers of a stack, or one a layer."""
    shared: tuple[str, ...] = ()
    """With one module a layer: parameters that are one object in all layers."""
    refuses: ClassVar[Mapping[Role, str]] = {}
    """Roles in which the method is not defined, with the reason and the spelling that works."""
    needs_attention_bias: tuple[str, ...] = ()
    """The values of `model.attention_bias` with which the method is what was published; empty where any is."""
    bias_reason: str = ""
    """Why."""
    also_in_cross_value: bool = False
    """In an encoder: whether cross-attention's values read the encoder's input beside its output (ConvS2S)."""
    own_layer: bool = False
    """Whether this instance acts by the number of its layer, so that no other layer can be served by it."""
    length_dependent: bool = False
    """Whether `Span.length` changes the formula (dynamic NTK, LongRoPE): other padding, or another limit of a
    generation, then gives other numbers, and cached decoding equals a full pass planned for the same length."""
    by_token: tuple[str, ...] = ()
    """Parameters with a row for each token id."""
    first_apart: bool = False
    """Whether this instance sets the token at position 0 apart from all others."""
    limit_option: str = "max_length"
    """What sets `max_positions`."""
    path: str = "encoding"
    """The config path of this encoding's slot, for messages; see `locate`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.overrides("key") and cls.overrides("score") and cls.keys == "after":
            raise TypeError(f"{cls.__name__} changes keys and reads raw keys in score: set keys = 'before'")

    @classmethod
    def overrides(cls, hook: str) -> bool:
        """Whether the class defines the hook."""
        return getattr(cls, hook) is not getattr(PositionalEncoding, hook)

    @classmethod
    def published_share(cls, options: Mapping[str, Any]) -> str:
        """`share` where the config leaves it open."""
        return cls.share

    def acts(self, hook: str) -> bool:
        """Whether this instance acts through the hook."""
        return self.overrides(hook)

    def positions(self, length: int, batch: int, device: torch.device) -> Positions:
        """Positions of a batch of sequences, drawn once a sequence batch."""
        return range(length)

    def positions_end(self, length: int) -> int:
        """One more than the largest position that `positions` gives one of so many tokens."""
        return length

    def max_positions(self) -> int | None:
        """The most tokens that a sequence may have, or None where any position can be encoded."""
        return None

    def shortage(self, length: int) -> Shortage | None:
        """What a sequence of so many tokens lacks, or None."""
        limit = self.max_positions()
        return None if limit is None or length <= limit else Shortage(f"{self.path}.{self.limit_option}", limit, length)

    def locate(self, path: str) -> None:
        """Tell the instance where its options stand."""
        self.path = path

    def embed(self, x: Tensor, tokens: Tensor, positions: Positions) -> Tensor:
        """Absolute encodings, at the input of a stack: (B, T, E) -> (B, T, E)."""
        return x

    def prepare(self, span: Span) -> Any:
        """What this instance needs in every call of the step (cos and sin, projected relative rows), in float32."""
        return None

    def project(self, span: Span, query: Projection, key: Projection) -> Span:
        """The span for one layer, with what has to pass that layer's own projections (DeBERTa v3's positions)."""
        return span

    def query_input(self, x: Tensor, span: Span) -> Tensor:
        """What the query projection reads: (B, Q, E) -> (B, Q, E)."""
        return x

    def key_input(self, x: Tensor, span: Span) -> Tensor:
        """What the key projection reads: (B, K, E) -> (B, K, E)."""
        return x

    def features(self, x: Tensor) -> Tensor | None:
        """(B, T, E) -> (B, H, T, F), kept in the cache beside the keys and handed to `score`."""
        return None

    def query(self, q: Tensor, span: Span) -> Tensor:
        """(B, H, Q, D) -> (B, H, Q, D), or wider where `key` is as wide."""
        return q

    def key(self, k: Tensor, span: Span) -> Tensor:
        """(B, H, K, D) -> (B, H, K, D), or wider where `query` is as wide."""
        return k

    def scale(self, head_dim: int) -> float:
        """The multiplier of q·k, by the size D of a head as projected."""
        return float(head_dim**-0.5)

    def table(self, distance: Tensor) -> Tensor | None:
        """Bias of (head, i - j) alone, in nats: (R,) int64 -> (H, R) float32."""
        return None

    def bias(self, span: Span) -> Tensor | None:
        """Bias of positions, but not of i - j alone: (H, Q, K) or (B, H, Q, K)."""
        return None

    def visible(self, distance: Tensor) -> Tensor | None:
        """Which distances may be attended: (R,) -> (R,) bool, joined with the mask."""
        return None

    def score(
        self, scores: Tensor, q: Tensor, k: Tensor, features: Tensor | None, span: Span, keep: Tensor | None
    ) -> Tensor:
        """Anything else in the logits, (B, H, Q, K) -> the same, from raw q and k; in `keep`, True means attend."""
        return scores

    def value(self, weights: Tensor, span: Span) -> Tensor | None:
        """What is added to the output: weights (B, H, Q, K) -> (B, H, Q, D)."""
        return None

    def ready(self, span: Span, whole: Tensor | None = None) -> Span:
        """The span with what this instance makes once a step. Formulas run in float32, whatever the precision.

        `whole` is its table for every distance of a generation, where that has been made: the step's is a slice of it.
        """
        table = self.tabulated(span) if whole is None else span.relative.columns(whole)
        if not self.overrides("prepare"):
            return span if table is None else replace(span, table=table)
        with unlowered(span.device):
            return replace(span, prepared=self.prepare(span), table=table)

    def tabulated(self, span: Span) -> Tensor | None:
        """This instance's table for the distances of a span, or None where it acts otherwise: (H, R), a head's values
        side by side, since kernels read it as the mask of all pairs."""
        if not self.acts("table"):
            return None
        with unlowered(span.device):
            table = self.table(span.relative.distance)
        return None if table is None else table.contiguous()

    def resized(self, name: str, old: PositionalEncoding) -> Tensor | None:
        """The parameter `name` out of a trained encoding of the same class with other sizes, as `init_from` asks for
        it; None where it has to be drawn anew."""
        return None

    def constant(self, name: str, value: Tensor) -> None:
        """Keep a fixed tensor: it follows the module's device, never its dtype, and is not in the state dict."""
        self.register_buffer(name, value, persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> PositionalEncoding:
        constants = dict(self._buffers)
        super()._apply(fn, recurse)
        for name, value in constants.items():
            if value is not None and (moved := self._buffers[name]) is not None:
                self._buffers[name] = value.to(moved.device)
        return self
