"""check_encoding finds nothing in what is registered, and the fault in encodings that are broken on purpose."""

from typing import Any

import pytest
import torch
from torch import Tensor

from relformer.encodings import PositionalEncoding, Span, parameter
from relformer.encodings.parameters import normal
from relformer.encodings.rope import RoPE
from relformer.registry import encodings, register
from relformer.testing import check_encoding
from tests.model.models import SMALL


@pytest.mark.parametrize("name", list(encodings))
def test_nothing_is_wrong_with_a_registered_encoding(name: str) -> None:
    options = SMALL.get(name, {}) | ({"max_length": 64} if "max_length" in encodings[name].options() else {})
    assert check_encoding(name, options) == []


class Wave(PositionalEncoding):
    """score(i, j) += w_h cos(i - j): nothing is wrong with it."""

    def __init__(self, heads: int, *, init_std: float = 0.02) -> None:
        super().__init__()
        self.wave_weight = parameter(normal(init_std), heads)

    def table(self, distance: Tensor) -> Tensor:
        return self.wave_weight[:, None] * torch.cos(distance.float())


class WrongSign(RoPE):
    """Turns keys the wrong way, so that i + j enters instead of i - j."""

    def key(self, k: Tensor, span: Span) -> Tensor:
        cos, sin = span.prepared[1]
        return self.rotate(k, (cos, -sin))


class FromShape(Wave):
    """Counts positions from the shape of the call: a decode step has one query, which it takes for the first."""

    def table(self, distance: Tensor) -> Tensor:
        return super().table(torch.arange(len(distance)))


class GrowingBuffer(Wave):
    """Keeps the longest table seen."""

    def __init__(self, heads: int, *, init_std: float = 0.02) -> None:
        super().__init__(heads, init_std=init_std)
        self.register_buffer("kept", torch.zeros(0))

    def table(self, distance: Tensor) -> Tensor:
        if len(self.kept) < len(distance):
            self.kept = distance.float()
        return super().table(distance)


class DeadParameter(Wave):
    def __init__(self, heads: int, *, init_std: float = 0.02) -> None:
        super().__init__(heads, init_std=init_std)
        self.unused = parameter(normal(0.02), heads)


class Leak(Wave):
    """Adds what all keys have in common, those of the future too."""

    def score(self, scores: Tensor, q: Tensor, k: Tensor, features: Any, span: Span, keep: Any) -> Tensor:
        return scores + (q * k.mean(2, keepdim=True)).sum(-1, keepdim=True) * scores


BROKEN = [
    (WrongSign, {"family": "rotary"}, "where all positions shift by 7"),
    (FromShape, {}, "cached decoding disagrees with the full pass at step"),
    (GrowingBuffer, {}, "kept changes during a call"),
    (DeadParameter, {}, "parameter unused gets no gradient"),
    (Leak, {}, "the decoder sees the future"),
]


@pytest.mark.parametrize(("cls", "facts", "fault"), BROKEN, ids=[cls.__name__ for cls, _, _ in BROKEN])
def test_a_broken_encoding_is_found_out(cls: type[PositionalEncoding], facts: dict[str, str], fault: str) -> None:
    name = cls.__name__.lower()
    register(name, **facts)(cls)
    try:
        found = check_encoding(cls)
    finally:
        encodings.forget(name)
    assert any(fault in line for line in found), found


def test_a_class_that_is_not_registered_is_checked_and_leaves_no_trace() -> None:
    before = list(encodings)
    assert check_encoding(Wave) == []
    assert list(encodings) == before


def test_the_formula_is_compared_where_it_is_given() -> None:
    def oracle(encoding: PositionalEncoding, h: int, i: int, j: int) -> float:
        return float(encoding.wave_weight[h] * torch.cos(torch.tensor(float(i - j))))  # type: ignore[operator]

    options = {"init_std": 1.0}
    assert check_encoding(Wave, options, oracle) == []
    wrong = check_encoding(Wave, options, lambda encoding, h, i, j: oracle(encoding, h, i, j) + 0.1 * (i < j))
    assert any("not those of the formula" in fault for fault in wrong)


def test_a_constructor_that_hides_its_options_is_refused() -> None:
    class Hidden(PositionalEncoding):
        def __init__(self, heads: int, **options: Any) -> None:
            super().__init__()

    assert "list the arguments" in check_encoding(Hidden)[0]
