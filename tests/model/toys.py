"""Encodings of no use but to the tests: each acts through a hook, or a use of one, that it has to itself."""

import torch
from torch import Tensor

from relformer.encodings import PositionalEncoding, Positions, Span, as_tensor, parameter
from relformer.encodings.alibi import ALiBi
from relformer.encodings.parameters import normal
from relformer.encodings.rope import RoPE
from relformer.encodings.shaw import Shaw
from relformer.encodings.simple_bias import SimpleBias
from relformer.encodings.sinusoid import sinusoid

HEADS, HEAD_DIM, WIDTH = 3, 8, 24


class PositionBias(PositionalEncoding):
    """`bias`: of both positions, not of their distance; (B | 1, H, Q, K)."""

    def bias(self, span: Span) -> Tensor:
        i, j = as_tensor(span.q, span.device)[:, None, :, None], as_tensor(span.k, span.device)[:, None, None, :]
        head = torch.arange(HEADS)[:, None, None]
        return 2 * torch.sin(0.7 * i + head) * torch.cos(0.4 * j)


class HeadBias(PositionBias):
    """`bias` without a batch dimension: (H, Q, K)."""

    def bias(self, span: Span) -> Tensor:
        return super().bias(span)[0]


class BiasAndTable(ALiBi):
    """`bias` and `table` are added up."""

    def __init__(self) -> None:
        super().__init__(HEADS, "encoder")

    def bias(self, span: Span) -> Tensor:
        return PositionBias().bias(span)


class Window(PositionalEncoding):
    """`visible`: three back and one ahead."""

    def visible(self, distance: Tensor) -> Tensor:
        return (distance >= -1) & (distance <= 3)


class FarWindow(PositionalEncoding):
    """`visible`: leaves the first queries with nothing to see."""

    def visible(self, distance: Tensor) -> Tensor:
        return distance >= 2


class KeyGate(PositionalEncoding):
    """`features` and `score`: a gate made from each key's input, met by the raw query."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = parameter(normal(0.5), HEADS, WIDTH)
        self.direction = parameter(normal(0.5), HEADS, HEAD_DIM)

    def features(self, x: Tensor) -> Tensor:
        return (x @ self.gate.mT).tanh().mT[..., None]  # (B, T, H) -> (B, H, T, 1)

    def score(
        self, scores: Tensor, q: Tensor, k: Tensor, features: Tensor | None, span: Span, keep: Tensor | None
    ) -> Tensor:
        assert features is not None
        assert features.shape == (*k.shape[:-1], 1)
        return scores + (q * self.direction[:, None]).sum(-1, keepdim=True) * features.mT


class Counting(PositionalEncoding):
    """`score` with `keep`: adds the square of how many of the visible keys from this one on fit the query.

    Without the square, hidden keys at the end would move all logits of a row alike, and so nothing.
    """

    def score(
        self, scores: Tensor, q: Tensor, k: Tensor, features: Tensor | None, span: Span, keep: Tensor | None
    ) -> Tensor:
        gates = scores.sigmoid() if keep is None else scores.sigmoid() * keep
        return scores + 0.2 * gates.flip(-1).cumsum(-1).flip(-1).square()


class QueryInput(PositionalEncoding):
    """`query_input`: positions at the input of the query projection alone."""

    def query_input(self, x: Tensor, span: Span) -> Tensor:
        return x + sinusoid(as_tensor(span.q, x.device), WIDTH)


def drawn(length: int, batch: int) -> Tensor:
    """Increasing positions, others in every row; those of a longer draw begin alike."""
    rows = [torch.randint(1, 4, (200,), generator=torch.Generator().manual_seed(row)) for row in range(batch)]
    return torch.stack(rows)[:, :length].cumsum(1)


class SampledRoPE(RoPE):
    """`positions`: sampled, (B, L), for queries and keys."""

    def __init__(self) -> None:
        super().__init__(HEAD_DIM)

    def positions(self, length: int, batch: int, device: torch.device) -> Positions:
        return drawn(length, batch)


class SampledTable(SimpleBias):
    """`positions`: sampled, for a table of distances that clips."""

    def __init__(self) -> None:
        super().__init__(HEADS, "encoder", max_length=12)

    def positions(self, length: int, batch: int, device: torch.device) -> Positions:
        return drawn(length, batch)


class SampledRows(Shaw):
    """`positions`: one draw for all rows, (1, L), for relative keys and values."""

    def __init__(self) -> None:
        super().__init__(HEAD_DIM, max_distance=6)

    def positions(self, length: int, batch: int, device: torch.device) -> Positions:
        return drawn(length, 1)


class RawKeys(RoPE):
    """`keys = "before"`: the cache holds raw keys, which `score` reads beside the turned ones."""

    keys = "before"

    def __init__(self) -> None:
        super().__init__(HEAD_DIM)

    def score(
        self, scores: Tensor, q: Tensor, k: Tensor, features: Tensor | None, span: Span, keep: Tensor | None
    ) -> Tensor:
        return scores + 0.3 * q.flip(-1) @ k.mT


class RawSampledKeys(RawKeys):
    """Raw keys at sampled positions."""

    def positions(self, length: int, batch: int, device: torch.device) -> Positions:
        return drawn(length, batch)


class LengthScaled(PositionalEncoding):
    """Keys scaled by the planned length, which a decode step must know as a full pass does."""

    keys = "before"

    def key(self, k: Tensor, span: Span) -> Tensor:
        return k * (3 * as_tensor(span.k, k.device)[:, None, :, None] / span.length)


TOYS: list[type[PositionalEncoding]] = [
    PositionBias,
    HeadBias,
    BiasAndTable,
    Window,
    FarWindow,
    KeyGate,
    Counting,
    QueryInput,
    SampledRoPE,
    SampledTable,
    SampledRows,
    RawKeys,
    RawSampledKeys,
]
