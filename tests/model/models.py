"""Small models for the tests: every encoding in every slot that takes it, and a ragged batch."""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from relformer.errors import UserError
from relformer.model import ModelOptions, Seq2Seq, build_model
from relformer.model.slot import build_slot
from relformer.registry import encodings

SIZES: dict[str, Any] = {"width": 24, "heads": 3, "feedforward": 20}
SOURCES, TARGETS, PAD, BOS = 11, 13, 0, 1

SMALL: dict[str, dict[str, Any]] = {
    "simple_bias": {"max_length": 6},
    "gated_bias": {"max_length": 6},
    "t5": {"num_buckets": 8, "max_distance": 7},
    "shaw": {"max_distance": 4},
    "deberta": {"max_distance": 4},
    "cope": {"p_max": 4},
    "learned": {"max_length": 24},
    "absolute_bias": {"max_length": 24},
    "fire": {"threshold": 6.0},
    "tupe_a": {"max_length": 24},
    "tupe_r": {"max_length": 24, "num_buckets": 8, "max_distance": 7},
    "window": {"width": 3},
}
"""Options under which short sequences read whole tables and go beyond the clipped ones. Others keep their defaults."""


def node(name: str, **options: Any) -> dict[str, Any]:
    """One config node of an encoding."""
    return {"name": name} | SMALL.get(name, {}) | options


def sizes(name: str) -> dict[str, Any]:
    """The model's options, with the biases that the encoding needs."""
    needs = encodings[name].cls.needs_attention_bias  # type: ignore[attr-defined]
    return SIZES | ({"attention_bias": needs[0]} if needs else {})


def places() -> list[str]:
    """`rope` stands in encoder and decoder; `rope@cross` in all three slots."""
    found = []
    for name in encodings:
        found.append(name)
        with contextlib.suppress(UserError):
            build_slot(node(name), "cross", "cross_encoding", ModelOptions(**sizes(name)))
            found.append(f"{name}@cross")
    return found


PLACES = places()


def config(place: str, seed: int = 1, backend: str = "auto", model: Mapping[str, Any] = {}, **options: Any) -> Any:
    name, _, cross = place.partition("@")
    made = {"seed": seed, "model": sizes(name) | dict(model), "encoding": node(name, **options)}
    made["attention"] = {"backend": backend}
    for role, slot in (("encoder", "encoding"), ("decoder", "decoder_encoding")):
        if role in encodings[name].cls.refuses:  # type: ignore[attr-defined]
            made |= {"decoder_encoding": node(name, **options)} | {slot: node("none")}
    return made | ({"cross_encoding": node(name, **options)} if cross else {})


def build(place: str, seed: int = 1, backend: str = "auto", model: Mapping[str, Any] = {}, **options: Any) -> Seq2Seq:
    """A model whose encodings' parameters are far from their small starts, so that a lost position shows."""
    built = build_model(config(place, seed, backend, model, **options), SOURCES, TARGETS, PAD)
    enliven(built)
    return built.eval()


@torch.no_grad()
def enliven(model: Seq2Seq) -> None:
    generator = torch.Generator().manual_seed(5)
    for name, p in model.named_parameters():
        if ".encodings." in name:
            p.add_(torch.randn(p.shape, generator=generator) * 0.4)


def batch(sources: int = 9, targets: int = 10) -> tuple[Tensor, Tensor]:
    """Source ids (3, S) of which two rows are padded, and target ids (3, T) that begin with BOS."""
    generator = torch.Generator().manual_seed(3)
    source = torch.randint(2, SOURCES, (3, sources), generator=generator)
    source[1, -2:] = PAD
    source[2, -5:] = PAD
    target = torch.randint(2, TARGETS, (3, targets), generator=generator)
    target[:, 0] = BOS
    return source, target


@torch.no_grad()
def stepwise(model: Seq2Seq, source: Tensor, target: Tensor, chunks: list[int]) -> Tensor:
    """Logits of the target, through the cache, so many tokens at a time."""
    assert sum(chunks) == target.shape[1]
    cache = model.start(source, target.shape[1])
    return torch.cat([model.step(tokens, cache) for tokens in target.split(chunks, dim=1)], dim=1)


@torch.no_grad()
def check_cache(model: Seq2Seq) -> None:
    """Cached decoding gives the logits of one full pass, however the target is cut."""
    source, target = batch()
    full = model(source, target)
    for chunks in ([1] * 10, [3, 3, 3, 1], [2, 1, 4, 1, 2], [9, 1]):
        torch.testing.assert_close(stepwise(model, source, target, chunks), full, rtol=1e-5, atol=1e-5)


def hold_length(model: Seq2Seq, length: int = 40) -> None:
    """Plan every call for one length where a formula follows from it, so that padding alone is seen to do nothing."""
    for slot in model.slots.values():
        if any(encoding.length_dependent for encoding in slot):
            slot.place = planned(slot.place, length)  # type: ignore[method-assign]


def planned(place: Callable[..., Any], length: int) -> Callable[..., Any]:
    return lambda q, k, fresh, _, *rest: place(q, k, fresh, length, *rest)


@torch.no_grad()
def check_padding(model: Seq2Seq) -> None:
    """More columns of padding change nothing; `Span.length` is held where it is part of the formula."""
    hold_length(model)
    source, target = batch()
    plain = model(source, target)
    wider = model(F.pad(source, (0, 4), value=PAD), F.pad(target, (0, 3), value=PAD))[:, :10]
    torch.testing.assert_close(wider, plain, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def check_causal(model: Seq2Seq) -> None:
    """A target token reaches the outputs from its own on, and none before."""
    source, target = batch()
    plain = model(source, target)
    for t in (1, 5, 9):
        changed = target.clone()
        changed[:, t:] = (changed[:, t:] - 1) % (TARGETS - 2) + 2
        assert (changed[:, t:] != target[:, t:]).all()
        out = model(source, changed)
        torch.testing.assert_close(out[:, :t], plain[:, :t], rtol=1e-6, atol=1e-6)
        assert (out[:, t] - plain[:, t]).abs().max() > 1e-2


def loss_of(model: Seq2Seq, source: Tensor, target: Tensor) -> Tensor:
    logits = model(source, target[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)
