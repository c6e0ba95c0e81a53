"""A head in a few numbers and a word: the shape of its bias by distance, and where its attention goes.

Of the profile f(i - j) in nats, or the encoding's own table where that is all it adds, within the trained length:

    range        max f - min f
    slope        least squares of f on |i - j|, nats a token; below 0: nearer is more
    oscillation  how far f travels up and down from one distance to the next, keys in the past, beyond its range there

Of the attention weights on sentences of random tokens with BOS and EOS in their places, so that position, the frame and
nothing else decide; of the longest trained length, means over the queries of its second half:

    entropy      nats
    distance     mean |i - j|, tokens
    first        mass on the first token
    near, past   mass within 2 tokens; on keys before the query
    beyond       mass at distances beyond the trained length, of the queries beyond it in sentences of twice the length

Distances of cross-attention are between a target position and a source position.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor

from relformer.analysis.position_map import Array, PositionPart
from relformer.analysis.probe import Probe
from relformer.analysis.watch import still, watch
from relformer.attention.call import Call
from relformer.encodings import Role
from relformer.model import Seq2Seq

NEAR = 2
UNIFORM = 0.9
"""Share of the greatest possible entropy from which a head counts as uniform."""


@dataclass(frozen=True)
class Head:
    """One head of one layer."""

    range: float
    slope: float
    oscillation: float
    entropy: float
    distance: float
    first: float
    near: float
    past: float
    beyond: float
    word: str

    def numbers(self) -> dict[str, float]:
        return {name: value for name, value in asdict(self).items() if name != "word"}


@torch.no_grad()
def attention_figures(model: Seq2Seq, probe: Probe, trained: Mapping[Role, int]) -> dict[Role, dict[str, Array]]:
    """Of each slot the figures of attention, (layers, H) each, on a framed probe.

    `trained` is the furthest distance that training had.
    """
    found: dict[Role, list[dict[str, Tensor]]] = {role: [] for role in model.slots}

    def see(role: Role, layer: int, call: Call) -> None:
        weights = call.weights()
        visible = torch.ones_like(weights[0, 0]) if call.keep is None else call.keep[0, 0].expand_as(weights[0, 0])
        found[role].append(of_weights(weights.mean(0), visible.sum(-1), trained[role], entropies(weights)))

    with still(model), watch(model, see):
        model(probe.source, probe.target)
    return {
        role: {name: np.stack([each[name].cpu().numpy() for each in layers]) for name in layers[0]}
        for role, layers in found.items()
    }


def entropies(weights: Tensor) -> Tensor:
    """Of each query, mean over sentences: (B, H, Q, K) -> (H, Q)."""
    return torch.special.entr(weights).sum(-1).mean(0)


def of_weights(weights: Tensor, visible: Tensor, trained: int, entropy: Tensor) -> dict[str, Tensor]:
    """Figures, (H,) each, of mean weights (H, Q, K), how many keys a query sees (Q,), and mean entropies (H, Q)."""
    queries, keys = weights.shape[-2:]
    distance = torch.arange(queries, device=weights.device)[:, None] - torch.arange(keys, device=weights.device)
    rows = slice(min(trained, queries - 1) // 2, min(trained, queries - 1) + 1)
    late = slice(min(trained + 1, queries - 1), queries)  # at least the last

    def mass(where: Tensor, of: slice = rows) -> Tensor:
        return (weights * where).sum(-1)[:, of].mean(-1)

    return {
        "entropy": entropy[:, rows].mean(-1),
        "evenness": (entropy / visible.clamp(min=2).log())[:, rows].mean(-1),
        "distance": mass(distance.abs()),
        "first": mass((torch.arange(keys, device=weights.device) == 0).expand_as(distance)),
        "near": mass(distance.abs() <= NEAR),
        "past": mass(distance > 0),
        "beyond": mass(distance.abs() > trained, late),
    }


def describe(part: PositionPart, figures: dict[str, Array], trained: int) -> list[list[Head]]:
    """The heads of one slot, by layer."""
    layers, heads = part.r2.shape
    return [
        [one_head(part, {name: float(v[n, h]) for name, v in figures.items()}, n, h, trained) for h in range(heads)]
        for n in range(layers)
    ]


def one_head(part: PositionPart, figures: dict[str, float], layer: int, head: int, trained: int) -> Head:
    distance, f = part.distance, part.profile[layer, head]
    inside = (np.abs(distance) <= trained) & ~np.isnan(f)
    if part.table is not None and len(part.table) in (1, len(part.r2)):
        f = part.table[layer % len(part.table), head]
    behind = f[inside & (distance >= 0)]
    far = np.abs(distance[inside]).astype(float)
    travelled = float(np.abs(np.diff(behind)).sum())
    centred = far - far.mean()
    spread = float((centred**2).sum())
    return Head(
        range=float(np.ptp(f[inside])),
        slope=float((centred * f[inside]).sum()) / spread if spread else math.nan,
        oscillation=travelled - float(np.ptp(behind)) if len(behind) else math.nan,
        word=word(figures),
        **{name: figures[name] for name in ("entropy", "distance", "first", "near", "past", "beyond")},
    )


def word(figures: dict[str, float]) -> str:
    """The first that holds: half of the mass on the first token, half within 2 tokens, entropy near its most, four
    fifths on one side of the query; else "mixed"."""
    if figures["first"] >= 0.5:
        return "first token"
    if figures["near"] >= 0.5:
        return "local"
    if figures["evenness"] >= UNIFORM:
        return "uniform"
    if figures["past"] >= 0.8:
        return "past"
    return "future" if 1 - figures["past"] - figures["near"] >= 0.8 else "mixed"
