"""The logits of every attention call on one pair of sentences, taken apart: content, position, mask.

    content   scale (W_q x_i)·(W_k y_j)       the logit with the encoding switched off in this call
    position  logit - content                 all that the encoding did in it: turned, added, stretched, gated
    mask      0, or the lowest number         where the key is padding, in the future, or out of a window

x and y are what the attention is given: a layer's normed input, for cross-attention's keys the encoder's output; scale
is the encoding's own multiplier. The three sum to the logits that the softmax gets. An encoding of a stack's input has
acted on x and y before: there position is 0 here, and `absolute_terms` takes the first layer apart. Biases of the
projections are content.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from relformer.analysis.watch import attentions, still, watch
from relformer.attention.call import Call
from relformer.encodings import Role
from relformer.model import Seq2Seq
from relformer.model.attention import Attention


@dataclass(frozen=True, eq=False)
class Traced:
    """One attention call: `content`, `position`, `mask` and `weights` (H, Q, K) in float32, and whose they are."""

    slot: Role
    layer: int
    content: Tensor
    position: Tensor
    mask: Tensor
    weights: Tensor
    queries: tuple[str, ...] = ()
    """The tokens that ask, (Q,), and those that are asked, (K,)."""
    keys: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<{self.slot} layer {self.layer}: (H, Q, K) = {tuple(self.weights.shape)}>"

    @property
    def logits(self) -> Tensor:
        """What the softmax got: (H, Q, K)."""
        return self.content + self.position + self.mask


@torch.no_grad()
def trace_calls(model: Seq2Seq, source: Tensor, target: Tensor) -> list[Traced]:
    """Every call of a teacher-forced pass over one sentence pair, source (1, S) and target from BOS on (1, T), by the
    dense kernel and in float32."""
    calls: list[tuple[Role, int, Call]] = []
    inputs: list[tuple[Attention, Tensor]] = []
    memory: list[Tensor] = []

    def keep_input(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        assert isinstance(module, Attention)
        inputs.append((module, arguments[0]))

    def keep_memory(module: nn.Module, arguments: tuple[Any, ...], encoded: Any) -> None:
        memory.append(encoded.states)

    found = {attention for _, _, attention in attentions(model)}
    hooks = [attention.register_forward_pre_hook(keep_input) for attention in found]
    if "encoder" in model.stacks:
        hooks.append(model.stacks["encoder"].register_forward_hook(keep_memory))
    try:
        with still(model), densely(model), watch(model, lambda *seen: calls.append(seen)):
            model(source, target)
            return [
                taken_apart(role, number, call, content(attention, x, memory[0] if role == "cross" else x, call))
                for (role, number, call), (attention, x) in zip(calls, inputs, strict=True)
            ]
    finally:
        for hook in hooks:
            hook.remove()


def content(attention: Attention, x: Tensor, y: Tensor, call: Call) -> Tensor:
    """(B, H, Q, K): the scaled product of what the projections make of x and y alone."""
    return attention.split(attention.query(x)) @ attention.split(attention.key(y)).mT * call.scale


def taken_apart(role: Role, number: int, call: Call, content: Tensor) -> Traced:
    logits = call.logits()
    mask = torch.zeros_like(logits)
    if call.keep is not None:
        mask = mask.masked_fill(~call.keep, torch.finfo(mask.dtype).min)
    parts = (content, logits - content, mask, call.weights())
    content, position, mask, weights = (part[0].float().cpu() for part in parts)
    return Traced(role, number, content, position, mask, weights)


@contextmanager
def densely(model: Seq2Seq) -> Iterator[None]:
    """Within this every attention runs by the reference kernel."""
    before = {attention: attention.backend for _, _, attention in attentions(model)}
    try:
        for attention in before:
            attention.backend = "dense"
        yield
    finally:
        for attention, backend in before.items():
            attention.backend = backend
