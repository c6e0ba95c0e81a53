"""Several encodings in one slot, each through its own hooks.

    encoding=compose 'encoding.parts=[{name: window, width: 8}, {name: rope}]'

Positions come from the first part that samples them; inputs, queries, keys and logits pass through the parts in order;
tables, biases and what is added to the output are summed, visible distances intersected. At most one part may set the
multiplier of q·k, and at most one may keep features beside the keys. Each part is checked like an encoding of its own:
`encoding.parts[1].widht`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import reduce
from typing import Any, Literal

import torch
from torch import Tensor, nn

from relformer.encodings.base import PositionalEncoding, Projection, Role, Shortage
from relformer.encodings.span import Positions, Span
from relformer.errors import OptionError, UserError
from relformer.registry import encodings, register

IN_LAYERS = (
    *("prepare", "project", "query_input", "key_input", "features", "query", "key", "scale", "table", "bias"),
    *("visible", "score", "value"),
)
"""The hooks that layers call."""
DEFAULT: list[Any] = [{"name": "rope"}, {"name": "alibi"}]


@register("compose", family="combination", changes="what its parts change", learned="parts", beyond="parts", paper="")
class Compose(PositionalEncoding):
    keys: Literal["after", "before"] = "before"  # the class has every hook; an instance may not need it

    def __init__(
        self,
        heads: int,
        head_dim: int,
        width: int,
        layers: int,
        layer: int,
        role: Role,
        vocabulary: int,
        embedding_std: float,
        *,
        parts: list[Any] = DEFAULT,
    ) -> None:
        super().__init__()
        injected = {
            "heads": heads,
            "head_dim": head_dim,
            "width": width,
            "layers": layers,
            "layer": layer,
            "role": role,
            "vocabulary": vocabulary,
            "embedding_std": embedding_std,
        }
        if not parts:
            raise OptionError(
                "parts", parts, "lists nothing; give two or more, such as [{name: window, width: 8}, {name: rope}]"
            )
        self.parts = nn.ModuleList(build_part(number, part, injected) for number, part in enumerate(parts))
        self.shared = tuple(f"parts.{n}.{name}" for n, part in enumerate(self) for name in shared(part))
        rewritten = any(part.acts("key") for part in self) and any(part.acts("score") for part in self)
        self.keys = "before" if rewritten or any(part.keys == "before" for part in self) else "after"
        self.by_token = tuple(f"parts.{n}.{name}" for n, part in enumerate(self) for name in part.by_token)
        self.also_in_cross_value = any(part.also_in_cross_value for part in self)
        self.length_dependent = any(part.length_dependent for part in self)
        self.own_layer = any(part.own_layer for part in self)
        self.first_apart = any(part.first_apart for part in self)
        needy = next((part for part in self if part.needs_attention_bias), self)
        self.needs_attention_bias, self.bias_reason = needy.needs_attention_bias, needy.bias_reason
        for hook, what in (("scale", "sets the multiplier of q·k"), ("features", "keeps features beside the keys")):
            if sum(part.acts(hook) for part in self) > 1:
                raise OptionError("parts", [part["name"] for part in parts], f"has more than one part that {what}")

    def __iter__(self) -> Any:
        return iter(self.parts)

    @classmethod
    def published_share(cls, options: Mapping[str, Any]) -> str:
        """One module a layer as soon as one part is published that way."""
        classes = [
            encodings[part["name"]].cls for part in options.get("parts", DEFAULT) if part.get("name") in encodings
        ]
        return "layer" if any(each.share == "layer" for each in classes) else "stack"  # type: ignore[attr-defined]

    def acts(self, hook: str) -> bool:
        return any(part.acts(hook) for part in self)

    def resized(self, name: str, old: PositionalEncoding) -> Tensor | None:
        assert isinstance(old, Compose)
        _, number, inner = name.split(".", 2)
        part, before = self.parts[int(number)], old.parts[int(number)]
        assert isinstance(part, PositionalEncoding) and isinstance(before, PositionalEncoding)
        return part.resized(inner, before) if type(part) is type(before) else None

    def locate(self, path: str) -> None:
        super().locate(path)
        for number, part in enumerate(self):
            part.locate(f"{path}.parts[{number}]")

    @property
    def sampler(self) -> PositionalEncoding | None:
        """The part whose positions all parts have."""
        return next(self.acting("positions"), None)

    def positions_end(self, length: int) -> int:
        return length if self.sampler is None else self.sampler.positions_end(length)

    def max_positions(self) -> int | None:
        limits = {part: limit for part in self if (limit := part.max_positions()) is not None}
        own = limits.pop(self.sampler, None) if self.sampler is not None else None
        tables = [
            max(bisect_right(range(limit + 1), limit, key=self.positions_end) - 1, 0) for limit in limits.values()
        ]
        return min(tables if own is None else [own, *tables], default=None)

    def shortage(self, length: int) -> Shortage | None:
        lacking = (part.shortage(length if part is self.sampler else self.positions_end(length)) for part in self)
        return next((each for each in lacking if each is not None), None)

    def positions(self, length: int, batch: int, device: torch.device) -> Positions:
        return range(length) if self.sampler is None else self.sampler.positions(length, batch, device)

    def embed(self, x: Tensor, tokens: Tensor, positions: Positions) -> Tensor:
        return reduce(lambda x, part: part.embed(x, tokens, positions), self.acting("embed"), x)

    def prepare(self, span: Span) -> list[Span]:
        """The span of each part."""
        return [replace(span, prepared=part.prepare(span)) for part in self]

    def project(self, span: Span, query: Projection, key: Projection) -> Span:
        return replace(
            span, prepared=[part.project(own, query, key) for part, own in zip(self, span.prepared, strict=True)]
        )

    def acting(self, hook: str) -> Iterator[PositionalEncoding]:
        """The parts that act through a hook. With some options a part has another of its hooks read its table."""
        return (part for part in self if part.acts(hook))

    def placed(self, hook: str, span: Span) -> Iterator[tuple[PositionalEncoding, Span]]:
        """Each part that acts through a hook, with its own span."""
        return ((part, own) for part, own in zip(self, span.prepared, strict=True) if part.acts(hook))

    def through(
        self, hook: str, x: Tensor, span: Span, step: Callable[[PositionalEncoding, Tensor, Span], Tensor]
    ) -> Tensor:
        for part, own in self.placed(hook, span):
            x = step(part, x, own)
        return x

    def query_input(self, x: Tensor, span: Span) -> Tensor:
        return self.through("query_input", x, span, lambda part, x, own: part.query_input(x, own))

    def key_input(self, x: Tensor, span: Span) -> Tensor:
        return self.through("key_input", x, span, lambda part, x, own: part.key_input(x, own))

    def features(self, x: Tensor) -> Tensor | None:
        return next((part.features(x) for part in self.acting("features")), None)

    def query(self, q: Tensor, span: Span) -> Tensor:
        return self.through("query", q, span, lambda part, q, own: part.query(q, own))

    def key(self, k: Tensor, span: Span) -> Tensor:
        return self.through("key", k, span, lambda part, k, own: part.key(k, own))

    def scale(self, head_dim: int) -> float:
        return next((part.scale(head_dim) for part in self.acting("scale")), super().scale(head_dim))

    def table(self, distance: Tensor) -> Tensor | None:
        return added(part.table(distance) for part in self.acting("table"))

    def bias(self, span: Span) -> Tensor | None:
        return added(part.bias(own) for part, own in self.placed("bias", span))

    def visible(self, distance: Tensor) -> Tensor | None:
        seen = [mask for part in self.acting("visible") if (mask := part.visible(distance)) is not None]
        return reduce(torch.logical_and, seen) if seen else None

    def score(
        self, scores: Tensor, q: Tensor, k: Tensor, features: Tensor | None, span: Span, keep: Tensor | None
    ) -> Tensor:
        for part, own in self.placed("score", span):
            scores = part.score(scores, q, k, features, own, keep)
        return scores

    def value(self, weights: Tensor, span: Span) -> Tensor | None:
        return added(part.value(weights, own) for part, own in self.placed("value", span))


def shared(part: PositionalEncoding) -> tuple[str, ...]:
    """What is one object in all layers: a part that acts on a stack's input does so once, so all of it."""
    if any(part.acts(hook) for hook in IN_LAYERS):
        return part.shared
    return tuple(name for name, _ in part.named_parameters())


def build_part(number: int, part: Any, injected: dict[str, Any]) -> PositionalEncoding:
    """One part, with the path of its options: `parts[1].width`."""
    if not isinstance(part, Mapping) or "name" not in part:
        raise OptionError(f"parts[{number}]", part, "is not an encoding's options; write {name: rope, base: 500}")
    if part["name"] == "compose":
        raise OptionError(f"parts[{number}].name", "compose", "can't be a part of itself; list the parts in one list")
    entry = encodings[part["name"]]
    role: Role = injected["role"]
    if reason := entry.cls.refuses.get(role):  # type: ignore[attr-defined]
        raise OptionError(f"parts[{number}].name", part["name"], f"can't serve this slot: {reason}")
    try:
        built: PositionalEncoding = entry.build(injected, {key: value for key, value in part.items() if key != "name"})
    except OptionError as error:
        raise OptionError(f"parts[{number}].{error.option}", error.value, error.rule) from None
    except UserError as error:
        raise UserError(f"parts[{number}]: {error}") from None
    return built


def added(terms: Any) -> Tensor | None:
    """The sum of the terms that are there."""
    there = [term for term in terms if term is not None]
    return reduce(torch.add, there) if there else None
