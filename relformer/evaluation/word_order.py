"""What a model makes of the order of its source: the same tokens, shuffled, reversed, or two of them swapped.

An encoder without positions sees a bag of tokens, and nothing changes. Only what could change is measured: a palindrome
isn't reversed, and equal tokens aren't swapped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from relformer.data.batching import Batch, Batches, Frame, Plan
from relformer.data.encoded import EncodedSet, Ids
from relformer.data.vocabulary import EOS, PAD
from relformer.evaluation.outcomes import COLUMNS, judge
from relformer.model import Seq2Seq
from relformer.seeding import seed_generators

Reorder = Callable[[Ids, np.random.Generator], list[int] | None]
"""The tokens of a source (no BOS, no EOS) in another order; None where no other order can be made."""
BATCH = 256
SEED = 0


@dataclass(frozen=True)
class OrderEffect:
    """Of the `n` examples that a change of order applies to, teacher-forced on their true targets: mean loss in nats a
    token and exact match before and after, the share of tokens whose most likely value changed, and the divergence
    KL(before || after) of the output in nats a token."""

    change: str
    n: int
    loss_before: float
    loss_after: float
    exact_before: float
    exact_after: float
    changed_tokens: float
    divergence: float


def shuffled(tokens: Ids, generator: np.random.Generator) -> list[int] | None:
    if len(set(tokens)) < 2:
        return None
    while (order := generator.permutation(tokens).tolist()) == list(tokens):
        pass
    return [int(token) for token in order]


def turned(tokens: Ids, generator: np.random.Generator) -> list[int] | None:
    order = list(tokens)[::-1]
    return None if order == list(tokens) else order


def swapped(distance: int, tokens: Ids, generator: np.random.Generator) -> list[int] | None:
    """Two different tokens that stand `distance` apart change places."""
    places = [i for i in range(len(tokens) - distance) if tokens[i] != tokens[i + distance]]
    if not places:
        return None
    place, order = int(generator.choice(places)), list(tokens)
    order[place], order[place + distance] = order[place + distance], order[place]
    return order


def changes(distances: Sequence[int]) -> dict[str, Reorder]:
    return {
        "shuffled": shuffled,
        "reversed": turned,
        **{f"swapped at distance {k}": partial(swapped, k) for k in distances},
    }


def order_effects(
    model: Seq2Seq, examples: EncodedSet, frame: Frame, distances: Sequence[int], most: int
) -> Iterator[OrderEffect]:
    """Every change of order on the first `most` examples, drawn by a fixed seed; changes that apply to none are left
    out. The model is in evaluation mode and on its device."""
    pairs = [examples.pair(row, 0) for row in range(min(most, len(examples)))]
    for name, change in changes(distances).items():
        generator = np.random.default_rng(SEED)
        orders = [change(list(source), generator) for source, _ in pairs]
        rows = [row for row, order in enumerate(orders) if order is not None]
        if rows:
            targets = [pairs[row][1] for row in rows]
            given = [examples.positions[row] for row in rows] if examples.positions is not None else None
            before, after = (
                EncodedSet(sources, targets, positions=given)
                for sources in ([pairs[row][0] for row in rows], [orders[row] or [] for row in rows])
            )
            yield effect(name, model, Batches(before, frame), Batches(after, frame))


@torch.no_grad()
def effect(name: str, model: Seq2Seq, before: Batches, after: Batches) -> OrderEffect:
    n = len(before.examples)
    plans = [Plan(tuple(range(start, min(start + BATCH, n)))) for start in range(0, n, BATCH)]
    rows: list[list[Tensor]] = [[], []]
    changed = divergence = 0.0
    for plan in plans:
        batches = before[plan], after[plan]
        logits = [output(model, batch) for batch in batches]
        labels, index = batches[0].labels.to(logits[0].device), batches[0].index.to(logits[0].device)
        for kept, each in zip(rows, logits, strict=True):
            kept.append(judge(each, labels, index, index, PAD, EOS).double().cpu())
        real = labels != PAD
        changed += float((logits[0].argmax(-1) != logits[1].argmax(-1))[real].sum())
        log_p, log_q = (F.log_softmax(each, -1) for each in logits)
        divergence += float(F.kl_div(log_q, log_p, reduction="none", log_target=True).sum(-1)[real].sum())
    one, other = (dict(zip(COLUMNS, torch.cat(kept).unbind(-1), strict=True)) for kept in rows)
    tokens = float(one["labels"].sum())
    return OrderEffect(
        name,
        n,
        float(one["loss"].sum()) / tokens,
        float(other["loss"].sum()) / tokens,
        float(one["exact_match"].mean()),
        float(other["exact_match"].mean()),
        changed / tokens,
        max(0.0, divergence / tokens),
    )


def output(model: Seq2Seq, batch: Batch) -> Tensor:
    """Logits in float32; an encoding that draws positions draws the same ones before and after."""
    device = next(model.parameters()).device
    seed_generators(SEED, device)
    positions = None if batch.positions is None else batch.positions.to(device)
    return model(batch.source.to(device), batch.target.to(device), positions).float()
