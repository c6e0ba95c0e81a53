"""Long sequences: what is kept between the passes grows with the length, not with its square.

    P = exp(q·k scale + t - lse)       dV = P^T dO              dP = dO V^T
    dS = P (dP - rowsum(P dP))         dQ = dS K scale          dK = dS^T Q scale        dt[j - i] += dS[i, j]

Flash attention makes the output and the log-sum-exp, and nothing else is kept (Dao 2023, arXiv:2307.08691). It has no
gradient for a bias; where the table is learned, P and dS are made again for some heads and queries at a time, in
buffers that fit the cache of a core. dS is added into rows that are shifted by one each, so that one sum over them adds
up the diagonals. No chunk looks at keys that none of its queries can see.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from relformer.attention.toeplitz import flash
from relformer.attention.toeplitz.geometry import Geometry
from relformer.encodings.span import pairs

CHUNK = 2**18
"""Logits of a chunk, a thread."""
BLOCK = 256
"""Queries that flash attention takes together where distance hides keys."""

Block = tuple[slice, slice, slice]
"""Samples, queries, and the keys that they see."""


class Chunked(torch.autograd.Function):
    """q (B, H, Q, D), k, v (B, H, K, D) and a table (H, Q + K - 1), -inf where hidden: (B, H, Q, D)."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, table: Tensor, geometry: Geometry, scale: float) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            out, lse = forward(q, k, v, table, geometry, scale)
        ctx.save_for_backward(q, k, v, table, out, lse)
        ctx.geometry, ctx.scale = geometry, scale
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, table, out, lse = ctx.saved_tensors
        learned = ctx.needs_input_grad[3]
        made = backward if learned or not quick(q, v, ctx.geometry) else fixed_backward
        with torch.autocast("cpu", enabled=False):
            dq, dk, dv, dt = made(grad, q, k, v, table, out, lse, ctx.geometry, ctx.scale)
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), dt if learned else None, None, None


def quick(q: Tensor, v: Tensor, geometry: Geometry) -> bool:
    """Whether flash attention takes the call."""
    return flash.trusted() and geometry.pad is None and q.shape[-1] == v.shape[-1]


def blocks(geometry: Geometry, batch: int, queries: int, each: bool = False) -> Iterator[Block]:
    """Some queries at a time, of all samples or of each, with the keys they see; those that see none are left out."""
    lengths = geometry.lengths
    samples = [slice(b, b + 1) for b in range(batch)] if each or lengths else [slice(0, batch)]
    for start in range(0, geometry.queries, queries):
        places = slice(start, min(start + queries, geometry.queries))
        seen = geometry.seen(places)
        for some in samples:
            stop = min(seen.stop, lengths[some.start]) if lengths else seen.stop
            if stop > seen.start:
                yield some, places, slice(seen.start, stop)


def forward(q: Tensor, k: Tensor, v: Tensor, table: Tensor, geometry: Geometry, scale: float) -> tuple[Tensor, Tensor]:
    """The output (B, H, Q, D) and the log-sum-exp (B, H, Q), 0 where a query sees nothing."""
    fast = quick(q, v, geometry)
    if fast and not geometry.cut and geometry.lengths is None:
        return flash.forward(q, k, v, table, scale)
    batch, heads, queries, _ = q.shape
    out = torch.zeros_like(q) if q.shape == v.shape else v.new_zeros(batch, heads, queries, v.shape[-1])
    lse = table.new_zeros(batch, heads, queries)
    together = (BLOCK if geometry.cut else queries) if fast else rows(geometry, heads)
    for some, places, seen in blocks(geometry, batch, together, each=not fast):
        parts = q[some, :, places], k[some, :, seen], v[some, :, seen], table[:, geometry.columns(places, seen)]
        if fast:
            mixed, total = flash.forward(*parts, scale)
        else:
            mixed, total = written(*parts, None if geometry.pad is None else geometry.pad[some, ..., seen], scale)
        out[some, :, places], lse[some, :, places] = mixed, total
    return out, lse


def written(q: Tensor, k: Tensor, v: Tensor, table: Tensor, pad: Tensor | None, scale: float) -> tuple[Tensor, Tensor]:
    """What `flash.forward` gives, under any padding and for any sizes of heads."""
    scores = (q.to(table.dtype) @ k.to(table.dtype).mT).mul_(scale).add_(pairs(table, k.shape[2]))
    if pad is not None:
        scores.masked_fill_(pad, -torch.inf)
    lse = scores.logsumexp(-1, keepdim=True)
    lse.masked_fill_(lse == -torch.inf, 0.0)
    return scores.sub_(lse).exp_().to(v.dtype) @ v, lse[..., 0]


def rows(geometry: Geometry, heads: int) -> int:
    """Queries of a chunk of all heads."""
    return max(1, min(geometry.queries, CHUNK * torch.get_num_threads() // (heads * geometry.keys)))


def fixed_backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    table: Tensor,
    out: Tensor,
    lse: Tensor,
    geometry: Geometry,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor, None]:
    """The gradients of q, k and v, where the table wants none."""
    if not geometry.cut and geometry.lengths is None:
        return *flash.backward(grad, q, k, v, table, out, lse, scale), None
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for some, places, seen in blocks(geometry, len(q), BLOCK if geometry.cut else geometry.queries):
        asking, answering, columns = (
            (some, slice(None), places),
            (some, slice(None), seen),
            geometry.columns(places, seen),
        )
        dq[asking], more_k, more_v = flash.backward(
            grad[asking], q[asking], k[answering], v[answering], table[:, columns], out[asking], lse[asking], scale
        )
        dk[answering] += more_k
        dv[answering] += more_v
    return dq, dk, dv, None


def backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    table: Tensor,
    out: Tensor,
    lse: Tensor,
    geometry: Geometry,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of q, k, v and the table, at least in float32."""
    grad, q, k, v = (t.to(table.dtype) for t in (grad, q, k, v))
    heads, lse = q.shape[1], lse[..., None]
    dq, dk, dv, dt = (torch.zeros_like(t) for t in (q, k, v, table))
    together, step = chunk(geometry, heads)
    area = together * step * geometry.keys
    first, second = table.new_empty(2, area)
    shifted = table.new_empty(together * step * (geometry.keys + step - 1))
    for of in (slice(h, min(h + together, heads)) for h in range(0, heads, together)):
        for start in range(0, geometry.queries, step):
            places = slice(start, min(start + step, geometry.queries))
            seen = geometry.seen(places)
            if seen.start == seen.stop:
                continue
            columns = geometry.columns(places, seen)
            bias = pairs(table[of, columns], seen.stop - seen.start)
            n, m, width = bias.shape
            line = width + m - 1
            rows = shifted[: n * m * line].view(n, m, line).zero_()
            diagonals = rows.as_strided(bias.shape, (m * line, line - 1, 1), m - 1)
            for b in range(len(q)):
                stop = min(seen.stop, geometry.lengths[b]) if geometry.lengths else seen.stop
                if (w := stop - seen.start) <= 0:
                    continue
                asking, answering = (b, of, places), (b, of, slice(seen.start, stop))
                p, ds = (buffer[: n * m * w].view(n, m, w) for buffer in (first, second))
                torch.sub(bias[..., :w], lse[asking], out=p)
                p.baddbmm_(q[asking], k[answering].mT, alpha=scale).exp_()
                if geometry.pad is not None:
                    p.masked_fill_(geometry.pad[b, :, :, seen], 0.0)
                dv[answering].baddbmm_(p.mT, grad[asking])
                torch.bmm(grad[asking], v[answering].mT, out=ds)
                torch.ops.aten._softmax_backward_data.out(ds, p, -1, p.dtype, grad_input=ds)
                torch.bmm(ds, k[answering], out=dq[asking])
                dk[answering].baddbmm_(ds.mT, q[asking], alpha=scale)
                diagonals[..., :w].add_(ds)
            dt[of, columns] += rows.sum(1)
    return dq.mul_(scale), dk, dv, dt


def chunk(geometry: Geometry, heads: int) -> tuple[int, int]:
    """How many heads, and how many queries, a chunk has. Where distance hides keys, fewer queries skip more of them."""
    most = min(256, max(64, geometry.queries // 8)) if geometry.cut else 256
    area = CHUNK * torch.get_num_threads()
    queries = max(1, min(geometry.queries, most, area // geometry.keys))
    return max(1, min(heads, area // (queries * geometry.keys))), queries
