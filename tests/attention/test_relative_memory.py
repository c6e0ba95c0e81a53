"""What the kernel for rows by distance holds: blocks, and never a tensor of all pairs, or a row for every distance
where the table is clipped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from relformer.attention import relative as kernels
from relformer.attention.relative import relative, skew
from tests.attention.relative_calls import Made
from tests.encodings.calls import HEAD_DIM, HEADS, randn

LENGTH, BATCH = 200, 2


class Watch(TorchDispatchMode):
    """Shapes of all tensors that operations give, views included."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: set[tuple[int, ...]] = set()

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        self.shapes |= {tuple(t.shape) for t in (out if isinstance(out, tuple) else (out,)) if isinstance(t, Tensor)}
        return out


def shapes(name: str, causal: bool, **options: Any) -> set[tuple[int, ...]]:
    """Of one call forward and backward, in blocks of 10 kB."""
    made = Made(name, options, range(LENGTH), range(LENGTH), torch.float32, BATCH)
    call = made.call(torch.ones(BATCH, LENGTH).bool().index_fill(1, torch.tensor([3]), False), causal)
    with torch.autograd.set_multithreading_enabled(False), Watch() as watch:
        relative(call).sum().backward()
    return watch.shapes


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "CHUNK", 10_000)
    monkeypatch.setattr(kernels, "ROWS", 8)
    monkeypatch.setattr(kernels, "KEYS", 8)


@pytest.mark.parametrize("causal", [False, True], ids=["free", "causal"])
@pytest.mark.parametrize("name", ["shaw", "transformer_xl", "tener", "deberta"])
def test_nothing_larger_than_a_block_or_an_input_is_held(name: str, causal: bool) -> None:
    inputs = BATCH * HEADS * LENGTH * HEAD_DIM
    projected = HEADS * (2 * LENGTH - 1) * HEADS * HEAD_DIM if name in ("transformer_xl", "deberta") else 0
    largest = max(torch.Size(shape).numel() for shape in shapes(name, causal))
    assert largest <= max(inputs, projected, 10_000 // 4) < HEADS * LENGTH * LENGTH


@pytest.mark.parametrize("options", [{}, {"zero_outside": True}], ids=str)
def test_a_clipped_table_is_never_expanded_to_all_distances(options: dict[str, Any]) -> None:
    """Of the head size, or of a row's length, there are 2k + 1 rows, or 2k + 2 with that of zeros."""
    expanded = {s for s in shapes("shaw", False, max_distance=5, **options) if len(s) > 1 and 2 * LENGTH - 1 in s}
    assert not expanded
    assert any(2 * LENGTH - 1 in s for s in shapes("transformer_xl", False)), "this test would see one"


@pytest.mark.parametrize(("rows", "keys"), [(1, 1), (1, 5), (2, 1), (2, 4), (5, 3)])
def test_columns_by_distance_are_columns_by_key(rows: int, keys: int) -> None:
    wide = randn(2, rows, keys + rows - 1)
    for i in range(rows):
        for j in range(keys):
            assert torch.equal(skew.by_key(wide)[:, i, j], wide[:, i, j + rows - 1 - i])


@pytest.mark.parametrize(("rows", "keys"), [(1, 5), (2, 1), (2, 4), (3, 4), (6, 3)])
def test_gaps_are_all_that_is_no_pair(rows: int, keys: int) -> None:
    room = torch.full((100,), 5.0)
    wide = skew.block(room, 2, rows, keys)
    skew.clear_gaps(wide)
    assert (skew.by_key(wide) == 5).all()
    skew.by_key(wide).zero_()
    assert (wide == 0).all()
    assert (room[wide.numel() :] == 5).all()
