"""The kernel for rows by distance agrees with the formula written out: every form, mask, place and length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from relformer.attention import attend, kernel
from relformer.attention import relative as kernels
from relformer.attention.dense import dense
from relformer.attention.relative import fits, relative, serves
from relformer.registry import encodings
from tests.attention.relative_calls import FORMS, Made, check, computed
from tests.encodings.calls import enliven, make, qkv, ready

PLACES = {
    "square": (range(13), range(13)),
    "square from 40": (range(40, 53), range(40, 53)),
    "last rows": (range(7, 13), range(13)),
    "all in the past": (range(30, 37), range(9)),
    "all in the future": (range(7), range(30, 39)),
    "more queries": (range(13), range(5)),
    "one key": (range(6), range(3, 4)),
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks of queries, runs of keys, and groups of heads and sentences, none of them even."""
    monkeypatch.setattr(kernels, "CHUNK", 4 * 5 * 17 * 4)
    monkeypatch.setattr(kernels, "ROWS", 5)
    monkeypatch.setattr(kernels, "KEYS", 4)


@pytest.fixture
def double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def paddings(keys: int) -> dict[str, Tensor | None]:
    """Right, left, holes and a whole row, one a sentence; or none known."""
    padding = torch.ones(4, keys, dtype=torch.bool)
    padding[0, keys // 2 :] = False
    padding[1, : keys // 2] = False
    padding[2, ::3] = False
    padding[3] = False
    return {"none": None, "padded": padding}


@pytest.mark.parametrize("causal", [False, True], ids=["free", "causal"])
@pytest.mark.parametrize("padding", ["none", "padded"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_it_agrees_with_the_formula(form: Any, place: str, padding: str, causal: bool) -> None:
    q, k = PLACES[place]
    check(form, q, k, paddings(len(k))[padding], causal, relative_error=2e-5, absolute=2e-5)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("causal", [False, True], ids=["free", "causal"])
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_it_agrees_in_float64(form: Any, causal: bool) -> None:
    q, k = PLACES["last rows"]
    padding = paddings(len(k))["padded"]
    check(form, q, k, padding, causal, torch.float64, relative_error=1e-10, absolute=1e-10)


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(
    form=st.sampled_from(FORMS),
    queries=st.integers(1, 12),
    keys=st.integers(1, 12),
    offset=st.integers(-15, 15),
    lengths=st.lists(st.integers(0, 12), min_size=1, max_size=3),
    causal=st.booleans(),
    sizes=st.tuples(st.integers(1, 3000), st.integers(1, 7), st.integers(1, 7)),
)
def test_ragged_lengths_agree(
    form: Any, queries: int, keys: int, offset: int, lengths: list[int], causal: bool, sizes: tuple[int, int, int]
) -> None:
    """Whatever the lengths, and however the call is cut."""
    padding = torch.arange(keys) < torch.tensor(lengths)[:, None]
    with pytest.MonkeyPatch.context() as patch:
        for name, size in zip(("CHUNK", "ROWS", "KEYS"), sizes, strict=True):
            patch.setattr(kernels, name, size)
        q, k = range(20 + offset, 20 + offset + queries), range(20, 20 + keys)
        check(form, q, k, padding, causal, relative_error=2e-5, absolute=2e-5)


@pytest.mark.parametrize("form", [("shaw", {}), ("tener", {}), ("deberta", {"max_distance": 4})], ids=str)
def test_bfloat16_is_near_and_stays(form: Any) -> None:
    q, k = PLACES["square"]
    exact, rough = (computed(relative, form, q, k, dtype=dtype) for dtype in (torch.float32, torch.bfloat16))
    for name, value in rough.items():
        assert name not in ("out", "Q", "K", "V") or value.dtype == torch.bfloat16
        assert (value.float() - exact[name]).abs().max() <= 5e-2 * exact[name].abs().max(), name


@pytest.mark.parametrize("name", ["shaw", "transformer_xl", "tener", "deberta"])
def test_a_row_without_keys_gives_zeros_and_no_gradient(name: str) -> None:
    """The third sentence is empty, and of the others the first two queries, which stand before all keys."""
    padding = torch.ones(3, 6, dtype=torch.bool)
    padding[2] = False
    got = computed(relative, (name, {}), range(8), range(2, 8), padding, True)
    for blank in (got["out"], got["Q"]):
        assert (blank[2] == 0).all()
        assert (blank[:2, :, :2] == 0).all()
        assert (blank[:2, :, 3:] != 0).any(-1).all()  # with one key to see, nothing depends on the query
    assert (got["V"][2] == 0).all()


def test_great_logits_overflow_nothing() -> None:
    made = Made("tener", {}, range(9), range(9), torch.float32, 2)
    made.inputs = [(t.detach() * 300).requires_grad_() for t in made.inputs]
    out = relative(made.call(None, True))
    out.sum().backward()
    assert all(t.isfinite().all() for t in (out, *(t.grad for t in made.inputs if t.grad is not None)))


def test_the_gradient_can_be_taken_once() -> None:
    made = Made("shaw", {}, range(5), range(5), torch.float32, 2)
    out = relative(made.call(None, False))
    (first,) = torch.autograd.grad(out.square().sum(), made.inputs[0], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_it_serves_all_encodings_with_rows_by_distance_and_no_other() -> None:
    served = {name for name in encodings if serves(make(name))}
    assert served == {"shaw", "transformer_xl", "xlnet", "tener", "deberta"}
    assert served == {name for name, _ in FORMS}


def test_long_calls_between_ranges_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "PAIRS", 100)

    def chosen(name: str, q: Any, k: Any, **changes: Any) -> bool:
        encoding = make(name)
        queries = len(q) if isinstance(q, range) else q.shape[1]
        x, y, v = qkv(queries, len(k) if isinstance(k, range) else k.shape[1])
        call = Made(name, {}, range(2), range(2), torch.float32, 2).call(None, False)
        call = replace(call, q=x, k=y, v=v, raw=(x, y), span=ready(encoding, q, k), **changes)
        assert (kernel(call, "auto") is relative) == fits(call)
        assert kernel(call, "dense") is dense
        return fits(call)

    assert chosen("shaw", range(10), range(10))
    assert not chosen("shaw", range(9), range(9)), "too short"
    assert not chosen("shaw", range(99, 100), range(100)), "a step of one token"
    assert not chosen("shaw", range(10), range(10), dropout=0.1)
    sampled = torch.arange(10)[None] * 2
    assert not chosen("shaw", sampled, sampled)
    assert not chosen("alibi", range(10), range(10))


@torch.no_grad()
def test_a_composition_keeps_the_formula() -> None:
    """Its hooks are those of its parts; the kernel knows none of a window."""
    alone = make("compose", parts=[{"name": "shaw"}, {"name": "window", "width": 3}])
    enliven(alone)
    assert not serves(alone)
    q, k, v = qkv(130, 130)
    out = attend(q, k, v, alone, ready(alone, range(130), range(130)))
    shaw = make("shaw")
    enliven(shaw)
    assert not torch.allclose(out, attend(q, k, v, shaw, ready(shaw, range(130), range(130))))
