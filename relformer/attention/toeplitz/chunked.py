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
Block = tuple[slice, slice, slice]
"""A sample, some queries, and the keys that they see."""


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


def blocks(geometry: Geometry, batch: int, queries: int) -> Iterator[Block]:
    """Some queries of one sample at a time with the keys they see, but for those that see none.

    Sample by sample, what is reversed or copied on the way is small and stays in the cache.
    """
    for b in range(batch):
        for start in range(0, geometry.queries, queries):
            places = slice(start, min(start + queries, geometry.queries))
            seen = geometry.seen(places, b)
            if seen.start < seen.stop:
                yield slice(b, b + 1), places, seen


def forward(q: Tensor, k: Tensor, v: Tensor, table: Tensor, geometry: Geometry, scale: float) -> tuple[Tensor, Tensor]:
    """The output (B, H, Q, D) and the log-sum-exp (B, H, Q), 0 where a query sees nothing."""
    fast = quick(q, v, geometry)
    out = torch.empty_like(q) if q.shape == v.shape else v.new_empty(*q.shape[:3], v.shape[-1])
    lse = table.new_empty(q.shape[:3])
    if geometry.blind:
        out.zero_()
        lse.zero_()
    together = geometry.flashed if fast else area() // (q.shape[1] * geometry.keys)
    for some, places, seen in blocks(geometry, len(q), max(1, together)):
        parts = q[some, :, places], k[some, :, seen], v[some, :, seen], table[:, geometry.columns(places, seen)]
        mixed, total = out[some, :, places], lse[some, :, places]
        if fast:
            flash.forward(*parts, scale, mixed, total)
        else:
            pad = None if geometry.pad is None else geometry.pad[some, ..., seen]
            written(*parts, scale, mixed, total, pad)
    return out, lse


def written(
    q: Tensor, k: Tensor, v: Tensor, table: Tensor, scale: float, out: Tensor, lse: Tensor, pad: Tensor | None
) -> None:
    """What `flash.forward` does, under any padding (B, 1, 1, K) and for any sizes of heads."""
    scores = (q.to(table.dtype) @ k.to(table.dtype).mT).mul_(scale).add_(pairs(table, k.shape[2]))
    if pad is not None:
        scores.masked_fill_(pad, -torch.inf)
    total = scores.logsumexp(-1, keepdim=True)
    total.masked_fill_(total == -torch.inf, 0.0)
    lse.copy_(total[..., 0])
    out.copy_(scores.sub_(total).exp_() @ v.to(table.dtype))


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
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for some, places, seen in blocks(geometry, len(q), geometry.flashed):
        asking, answering = (some, slice(None), places), (some, slice(None), seen)
        asked = q[asking], k[answering], v[answering], table[:, geometry.columns(places, seen)]
        more = flash.backward(grad[asking], *asked, out[asking], lse[asking], scale, dq[asking])
        dk[answering] += more[0]
        dv[answering] += more[1]
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
    first, second = table.new_empty(2, together * step * geometry.keys)
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
                own = geometry.seen(places, b)
                if (w := own.stop - own.start) == 0:
                    continue
                asking, answering = (b, of, places), (b, of, own)
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
    queries = max(1, min(geometry.queries, most, area() // geometry.keys))
    return max(1, min(heads, area() // (queries * geometry.keys))), queries


def area() -> int:
    return CHUNK * torch.get_num_threads()
