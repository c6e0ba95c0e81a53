"""Looking at every attention call of a forward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle

import torch

from relformer.attention.call import Call
from relformer.encodings import Role
from relformer.model import Seq2Seq
from relformer.model.attention import Attention
from relformer.seeding import seed_generators

See = Callable[[Role, int, Call], None]
"""Is told the slot, the number of the layer and the call."""


def attentions(model: Seq2Seq) -> Iterator[tuple[Role, int, Attention]]:
    """Every attention of the model with its slot and the number of its layer, in the order of a forward pass."""
    for role, stack in model.stacks.items():
        for number, layer in enumerate(stack.layers):
            yield role, number, layer.attention  # type: ignore[misc]
            if (crossing := getattr(layer, "cross_attention", None)) is not None:
                yield "cross", number, crossing


@contextmanager
def watch(model: Seq2Seq, see: See) -> Iterator[None]:
    """Within this, `see` is shown every attention call of whole passes. A layer that the stack shares is called once
    for each of its places, in their order."""
    places: dict[Attention, list[tuple[Role, int]]] = {}
    for role, number, attention in attentions(model):
        places.setdefault(attention, []).append((role, number))

    def observer(of: list[tuple[Role, int]]) -> Callable[[Call], None]:
        place = cycle(of)
        return lambda call: see(*next(place), call)

    try:
        for attention, of in places.items():
            attention.observer = observer(of)
        yield
    finally:
        for _, _, attention in attentions(model):
            attention.observer = None


@contextmanager
def still(model: Seq2Seq) -> Iterator[None]:
    """Within this the model is in evaluation mode and float32 arithmetic; no random state is spent."""
    training, device = model.training, next(model.parameters()).device
    with (
        torch.random.fork_rng(devices=[device] if device.type == "cuda" else []),
        torch.autocast(device.type, enabled=False),
    ):
        seed_generators(0, device)  # a sampler that draws in evaluation draws the same positions at every step
        model.eval()
        try:
            yield
        finally:
            model.train(training)
