"""The position part of attention: what remains of the logits when content is averaged out, for any encoding.

    x(b, i, j) = logit of query i of sentence b before key j of sentence b + 1, less its mean over the keys i sees
    m(i, j)    = mean of x over sentences                                              the map, in nats
    R²         = S / (S + sum var x), S = sum m' m'' of the probe's two blocks         so that chance adds nothing to S
    f(i - j)   = least squares of m(i, j) = r_i + f(i - j), r_i free, mean f = 0       the profile

Tokens are drawn independently of position (`probe`). Queries meet keys of another sentence, or the diagonal would hold
how much a token likes itself, which is content. Softmax ignores a constant a row, so rows have mean 0; f has rows of
its own, since the mean of a row depends on how many keys it sees. A bias by distance comes back as f, up to a constant;
the states of deeper layers know positions by other ways too (the causal mask is one), and the map holds these as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relformer.analysis.probe import Probe
from relformer.analysis.watch import still, watch
from relformer.attention.call import Call
from relformer.encodings import Role
from relformer.model import Seq2Seq

Array = NDArray[np.float32]


@dataclass(frozen=True)
class PositionPart:
    """Of one slot: `maps` (layers, H, Q, K), `r2` (layers, H), `profile` (layers, H, Q + K - 1) by i - j from 1 - K.

    NaN where the mask hides a pair always; R² is NaN where the logits do not vary at all. `table` (modules, H,
    Q + K - 1) is the encoding's own, where a table is all that the slot's encodings add.
    """

    maps: Array
    r2: Array
    profile: Array
    table: Array | None = None

    @property
    def distance(self) -> NDArray[np.int64]:
        queries, keys = self.maps.shape[-2:]
        return np.arange(1 - keys, queries)


@torch.no_grad()
def position_parts(model: Seq2Seq, probe: Probe) -> dict[Role, PositionPart]:
    """Measure every slot in one pass over the probe."""
    found: dict[Role, list[tuple[Tensor, Tensor]]] = {role: [] for role in model.slots}

    def see(role: Role, layer: int, call: Call) -> None:
        found[role].append(position_part(call))

    with still(model), watch(model, see):
        model(probe.source, probe.target)
        return {
            role: PositionPart(
                maps := np.stack([m.cpu().numpy() for m, _ in layers]),
                np.stack([r2.cpu().numpy() for _, r2 in layers]),
                profiles := np.stack([profile(each) for each in maps]),
                own_tables(model, role, ~np.isnan(profiles[0, 0]), maps.shape[-1], probe.source.device),
            )
            for role, layers in found.items()
        }


def position_part(call: Call) -> tuple[Tensor, Tensor]:
    """Map (H, Q, K) and R² (H,) of one attention call over an even number of sentences."""
    x = call.among_others().logits().float()
    seen = None if call.keep is None else call.keep[:1, :1]
    x = centred(x, seen)
    one, other = (half.mean(0) for half in x.chunk(2))
    mean = (one + other) / 2
    by_content = (x.square().sum((0, -2, -1)) - len(x) * mean.square().sum((-2, -1))) / (len(x) - 1)
    by_position = (one * other).sum((-2, -1))
    r2 = by_position / (by_position + by_content)
    return mean if seen is None else mean.masked_fill(~seen[0], torch.nan), r2


def centred(x: Tensor, seen: Tensor | None) -> Tensor:
    """Rows (..., Q, K) with mean 0 over the keys they see, which are all unless told; 0 where they do not."""
    if seen is None:
        return x - x.mean(-1, keepdim=True)
    x = x.masked_fill(~seen, 0.0)
    mean = x.sum(-1, keepdim=True) / seen.sum(-1, keepdim=True).clamp(min=1)
    return (x - mean).masked_fill(~seen, 0.0)


def profile(maps: Array) -> Array:
    """The function of distance in maps (H, Q, K): (H, Q + K - 1), NaN for distances that no pair has."""
    queries, keys = maps.shape[-2:]
    seen = ~np.isnan(maps[0])
    solve, there = by_distance(seen.tobytes(), queries, keys)
    index = np.arange(queries)[:, None] - np.arange(keys)[None, :] + keys - 1
    sums = np.stack([np.bincount(index[seen], row[seen], queries + keys - 1) for row in maps])  # (H, Q + K - 1)
    found = np.full(sums.shape, np.nan, np.float32)
    found[:, there] = sums[:, there] @ solve
    return found


@lru_cache(maxsize=8)
def by_distance(seen: bytes, queries: int, keys: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The normal equations of f with the r_i eliminated, solved: sums of m by distance @ this = f with mean 0."""
    rows, columns = np.frombuffer(seen, bool).reshape(queries, keys).nonzero()
    incidence = np.zeros((queries, queries + keys - 1))  # each query meets each distance once at most
    incidence[rows, rows - columns + keys - 1] = 1.0
    per_row = np.maximum(incidence.sum(1, keepdims=True), 1.0)
    there = incidence.sum(0) > 0
    normal = np.diag(incidence.sum(0)) - incidence.T @ (incidence / per_row)
    return np.linalg.pinv(normal[np.ix_(there, there)], hermitian=True), there


def own_tables(model: Seq2Seq, role: Role, there: NDArray[np.bool_], keys: int, device: torch.device) -> Array | None:
    """The tables of a slot's modules that have one, where nothing else acts on its logits: (modules, H, Q + K - 1).

    NaN where no pair has the distance, as `there` (Q + K - 1,) says.
    """
    others = ("bias", "score", "query", "key", "embed", "query_input", "key_input", "visible")
    slot = model.slots[role]
    if any(encoding.acts(hook) for encoding in slot for hook in others):
        return None
    distance = torch.arange(len(there), device=device) + 1 - keys
    tables = [encoding.table(distance) for encoding in slot if encoding.acts("table")]
    found = [table.float().cpu().numpy() for table in tables if table is not None]
    return np.where(there, np.stack(found), np.float32(np.nan)) if found else None
