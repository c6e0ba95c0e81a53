"""Checks that every positional encoding must pass, for one's own encodings too.

    from relformer.testing import check_encoding
    assert check_encoding(MyEncoding) == []

Nothing here knows a formula; give `oracle` to have the numbers themselves compared.
"""

from __future__ import annotations

import contextlib
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from relformer.attention import attend
from relformer.attention.sdpa import serves
from relformer.encodings import PositionalEncoding, Role, Span
from relformer.errors import UserError
from relformer.model import Seq2Seq, build_model
from relformer.registry import Entry, encodings

Oracle = Callable[[PositionalEncoding, int, int, int], float]
"""(encoding, head, i, j) -> what is added to the scaled product of a query at i and a key at j."""

SIZES = {"width": 32, "heads": 4, "feedforward": 24}
SOURCES, TARGETS, PAD = 11, 13, 0
RELATIVE = ("bias", "rotary", "contextual")
"""Families whose attention is the same wherever a sequence begins, unless what it `changes` is by position."""


def check_encoding(
    encoding: type[PositionalEncoding] | str, options: Mapping[str, Any] | None = None, oracle: Oracle | None = None
) -> list[str]:
    """What is wrong with an encoding, in words; an empty list where nothing is.

    Args:
        encoding: a class, or a registered name.
        options: as in a config; small tables make the checks sharper.
        oracle: the formula of its logits, for encodings that act on logits.

    Checked: its constructor and its types, that it builds in each role it does not refuse, that decoding through the
    cache equals the full pass, that padding changes nothing and no token sees a later one, that each parameter gets a
    finite gradient, that calls leave no trace, that the backends agree, that a relative encoding is blind to where a
    sequence begins, and that tables are float32.
    """
    entry = entry_of(encoding)
    faults = list(constructor_faults(entry))
    roles = [role for role in typing.get_args(Role) if role not in entry.cls.refuses]  # type: ignore[attr-defined]
    if faults or not roles:
        return faults or ["it refuses every role: encoder, decoder and cross"]
    with registered(entry):
        for place in ["self", "cross"] if "cross" in roles else ["self"]:
            try:
                model = build(entry, dict(options or {}), place)
            except UserError as refusal:
                if place == "cross":
                    continue
                return [f"it can't be built: {refusal}"]
            for check in (trace_faults, cache_faults, padding_faults, future_faults, gradient_faults):
                faults += [f"{fault}{' (in the cross slot)' * (place == 'cross')}" for fault in check(model)]
        for role in roles:
            faults += [f"{fault} (as {role})" for fault in call_faults(entry, dict(options or {}), role, oracle)]
    return list(dict.fromkeys(faults))


def is_relative(entry: Entry) -> bool:
    """Whether its facts promise that the attention is the same wherever a sequence begins."""
    return entry.facts.get("family") in RELATIVE and "position" not in entry.facts.get("changes", "")


def entry_of(encoding: type[PositionalEncoding] | str) -> Entry:
    if isinstance(encoding, str):
        return encodings[encoding]
    known = [encodings[name] for name in encodings if encodings[name].cls is encoding]
    return known[0] if known else Entry(encoding.__name__, encoding)


@contextlib.contextmanager
def registered(entry: Entry) -> Iterator[None]:
    """The entry known by its name while it is checked."""
    if entry.name in encodings and encodings[entry.name].cls is entry.cls:
        yield
        return
    encodings.register(entry.name, **entry.facts)(entry.cls)
    try:
        yield
    finally:
        encodings.forget(entry.name)


def constructor_faults(entry: Entry) -> Iterator[str]:
    if not (isinstance(entry.cls, type) and issubclass(entry.cls, PositionalEncoding)):
        yield f"{entry.name} is not a subclass of relformer.encodings.PositionalEncoding"
        return
    for parameter in inspect.signature(entry.constructor).parameters.values():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            yield f"its constructor takes *{parameter.name}; list the arguments: they are the schema of its config"
        elif parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
            yield f"its option {parameter.name} has no default"
        elif parameter.kind is parameter.KEYWORD_ONLY and parameter.annotation is parameter.empty:
            yield f"its option {parameter.name} has no type"


def build(entry: Entry, options: dict[str, Any], place: str) -> Seq2Seq:
    """A small model with the encoding in its self-attention, and in its cross-attention too where `place` says so."""
    node, none = {"name": entry.name, **options}, {"name": "none"}
    refused, needs = entry.cls.refuses, entry.cls.needs_attention_bias  # type: ignore[attr-defined]
    model = build_model(
        {
            "seed": 1,
            "model": SIZES | ({"attention_bias": needs[0]} if needs else {}),
            "encoding": none if "encoder" in refused else node,
            "decoder_encoding": none if "decoder" in refused else node,
            "cross_encoding": node if place == "cross" else none,
        },
        SOURCES,
        TARGETS,
        PAD,
    )
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for slot in model.slots.values():
            for tensor in slot.parameters():  # away from starts at which a fault would not show
                tensor.add_(torch.randn(tensor.shape, generator=generator) * 0.4)
    return model.eval()


def batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    source = torch.randint(1, SOURCES, (3, 9), generator=generator)
    source[1, -2:] = source[2, -5:] = PAD
    return source, torch.randint(1, TARGETS, (3, 12), generator=generator)


def differs(one: Tensor, other: Tensor, tolerance: float = 1e-4) -> bool:
    return not torch.allclose(one, other, rtol=tolerance, atol=tolerance)


@torch.no_grad()
def trace_faults(model: Seq2Seq) -> Iterator[str]:
    """A call changes neither the module nor later calls."""
    source, target = batch()
    before = {name: value.clone() for name, value in (*model.named_buffers(), *model.named_parameters())}
    short = model(source, target[:, :4])
    model(F.pad(source, (0, 30), value=1), F.pad(target, (0, 30), value=1))
    after = dict((*model.named_buffers(), *model.named_parameters()))
    for name in after:
        if name not in before or before[name].shape != after[name].shape or not torch.equal(before[name], after[name]):
            yield f"{name.rpartition('.')[2]} changes during a call: compute it from the span instead of keeping it"
            return
    if differs(model(source, target[:, :4]), short):
        yield "a call gives other numbers after a longer one: something is kept between calls"


@torch.no_grad()
def cache_faults(model: Seq2Seq) -> Iterator[str]:
    source, target = batch()
    full = model(source, target)
    for size in (1, 3):
        cache = model.start(source, target.shape[1])
        for start in range(0, target.shape[1], size):
            try:
                step = model.step(target[:, start : start + size], cache)
            except (RuntimeError, IndexError) as error:
                yield f"cached decoding fails at step {start}: {str(error).splitlines()[0]}"
                return
            if differs(step, full[:, start : start + size]):
                yield f"cached decoding disagrees with the full pass at step {start}, {size} tokens at a time"
                return


@torch.no_grad()
def padding_faults(model: Seq2Seq) -> Iterator[str]:
    source, target = batch()
    if any(encoding.length_dependent for slot in model.slots.values() for encoding in slot):
        return
    if differs(
        model(F.pad(source, (0, 4), value=PAD), F.pad(target, (0, 3), value=PAD))[:, :12], model(source, target)
    ):
        yield "more padding changes the numbers of the tokens"


@torch.no_grad()
def future_faults(model: Seq2Seq) -> Iterator[str]:
    source, target = batch()
    plain = model(source, target)
    for t in range(1, target.shape[1]):
        changed = target.clone()
        changed[:, t] = changed[:, t] % (TARGETS - 1) + 1
        if differs(model(source, changed)[:, :t], plain[:, :t], 1e-5):
            yield f"token {t} changes what stands before it: the decoder sees the future"
            return


def gradient_faults(model: Seq2Seq) -> Iterator[str]:
    source, target = batch()
    model.zero_grad()
    model(source, target).square().sum().backward()
    for role, slot in model.slots.items():
        for name, tensor in slot.named_parameters():
            leaf = name.rpartition(".")[2]
            if tensor.grad is None or not tensor.grad.any():
                yield f"parameter {leaf} gets no gradient as {role}: it takes no part in the numbers"
            elif not tensor.grad.isfinite().all():
                yield f"parameter {leaf} gets a gradient that is not finite as {role}"


@torch.no_grad()
def call_faults(entry: Entry, options: dict[str, Any], role: Role, oracle: Oracle | None) -> Iterator[str]:
    """Of single attention calls."""
    encoding = instance(entry, options, role)
    q, k, v = (torch.randn(2, 4, 6, 8, generator=torch.Generator().manual_seed(s)) for s in range(3))
    features = encoding.features(torch.randn(2, 6, 32, generator=torch.Generator().manual_seed(4)))
    cpu = torch.device("cpu")

    def call(first: int, backend: Literal["dense", "sdpa"] = "dense") -> Tensor:
        span = encoding.ready(Span.between(range(first, first + 6), range(first, first + 6), 6, cpu))
        return attend(q, k, v, encoding, span, causal=role == "decoder", features=features, backend=backend)

    if is_relative(entry) and differs(call(0), call(7)):
        yield "the attention changes where all positions shift by 7, though its family is relative: check the signs"
    if serves(encoding) and differs(call(0), call(0, "sdpa")):
        yield "the backends dense and sdpa disagree"
    span = encoding.ready(Span.between(range(6), range(6), 6, cpu))
    if span.table is not None and span.table.dtype != torch.float32:
        yield f"its table is {span.table.dtype}, not float32"
    if span.table is not None and span.table.shape != (4, 11):
        yield f"its table is {tuple(span.table.shape)} for 4 heads and 11 distances, not (4, 11)"
    elif oracle is not None:
        yield from oracle_faults(encoding, span, role, q, k, oracle)


def oracle_faults(
    encoding: PositionalEncoding, span: Span, role: Role, q: Tensor, k: Tensor, oracle: Oracle
) -> Iterator[str]:
    """The logits of single pairs against the formula: a one-hot value shows each weight."""
    weights = attend(q[:1], k[:1], torch.eye(6)[:, :6].expand(1, 4, 6, 6), encoding, span, causal=role == "decoder")
    for h in range(4):
        for i in range(6):
            seen = range(i + 1 if role == "decoder" else 6)
            logits = torch.tensor([float(q[0, h, i] @ k[0, h, j]) / 8**0.5 + oracle(encoding, h, i, j) for j in seen])
            if differs(weights[0, h, i, : len(seen)], logits.softmax(-1)):
                yield f"head {h}, query {i}: the weights are not those of the formula"
                return


def instance(entry: Entry, options: dict[str, Any], role: Role) -> PositionalEncoding:
    injected = {
        "heads": 4,
        "head_dim": 8,
        "width": 32,
        "layers": 2,
        "layer": 1,
        "role": role,
        "vocabulary": TARGETS,
        "embedding_std": 1.0,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        encoding: PositionalEncoding = entry.build(injected, options)
    return encoding.eval()
