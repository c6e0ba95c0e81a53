"""Multi-head attention: projections around `attend`, and the keys and values it attends to.

Shapes: B batch, Q queries, K keys, H heads, D head size, E model size.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn

from relformer.attention import attend
from relformer.attention.call import Call
from relformer.encodings.parameters import Law, normal, uniform
from relformer.model.cache import Memory
from relformer.model.layers import Linear
from relformer.model.options import ModelOptions
from relformer.model.slot import Placed


class Attention(nn.Module):
    observer: Callable[[Call], None] | None = None
    """Is shown each call while it is set: `relformer.analysis.watch`."""

    def __init__(self, options: ModelOptions, backend: str) -> None:
        super().__init__()
        width, inner, self.heads, self.backend = options.width, options.inner_width, options.heads, backend
        self.dropout = options.attention_dropout
        biased, laws = options.attention_bias, projection_laws(options)
        self.query = Linear(width, inner, bias=biased != "none", law=laws["query"])
        self.key = Linear(width, inner, bias=biased != "none", law=laws["key"])
        self.value = Linear(width, inner, bias=biased in ("qkv", "all"), law=laws["value"])
        self.out = Linear(inner, width, bias=biased == "all", law=laws["out"])

    def split(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)  # (B, T, E) -> (B, H, T, D)

    def rows(self, projection: nn.Module, x: Tensor) -> Tensor:
        return self.split(projection(x)[None])[0]  # (R, E) -> (H, R, D)

    def memory(self, x: Tensor, placed: Placed, values: Tensor | None = None) -> Memory:
        """Keys and values of new inputs (B, K, E); `values` where the value projection reads something else."""
        k = self.split(self.key(placed.encoding.key_input(x, placed.fresh)))
        if placed.encoding.keys == "after":
            k = placed.encoding.key(k, placed.fresh)
        return Memory(k, self.split(self.value(x if values is None else values)), placed.encoding.features(x))

    def forward(
        self,
        x: Tensor,
        memory: Memory,
        placed: Placed,
        padding: Tensor | None,
        causal: bool,
        prefix: Tensor | None = None,
    ) -> Tensor:
        """Queries from x (B, Q, E) to a memory: (B, Q, E). `padding` (B, K) is True where a key is a token; of the keys
        as many as `prefix` (B,) says are seen by every query."""
        encoding = placed.encoding
        span = encoding.project(placed.span, partial(self.rows, self.query), partial(self.rows, self.key))
        mixed = attend(
            self.split(self.query(encoding.query_input(x, span))),
            memory.k,
            memory.v,
            encoding,
            span,
            padding=padding,
            causal=causal,
            features=memory.features,
            keys_done=encoding.keys == "after",
            dropout=self.dropout if self.training else 0.0,
            prefix=prefix,
            backend=self.backend,
            observer=self.observer,
        )
        return self.out(mixed.transpose(1, 2).flatten(2))


def projection_laws(options: ModelOptions) -> dict[str, Law | None]:
    """Xavier uniform; Xavier uniform with queries, keys and values drawn as one matrix (`xavier_packed`: smaller by
    sqrt(2) where heads fill the width); or T5's, made for an unscaled q·k: N(0, (E D)^-0.5) for queries, N(0, E^-0.5)
    for keys and values, N(0, (H D)^-0.5) for the output."""
    width, inner = options.width, options.inner_width
    if options.attention_init == "xavier":
        return dict.fromkeys(("query", "key", "value", "out"))
    if options.attention_init == "xavier_packed":
        packed = uniform((6 / (width + 3 * inner)) ** 0.5)
        return {"query": packed, "key": packed, "value": packed, "out": None}
    rest = normal(width**-0.5)
    return {
        "query": normal((width * options.head_size) ** -0.5),
        "key": rest,
        "value": rest,
        "out": normal(inner**-0.5),
    }
