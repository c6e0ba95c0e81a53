"""The kernel for tables: it equals `dense`, whatever is hidden and however it is cut, and holds nothing of L x L."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from relformer.attention import attend, kernel, toeplitz
from relformer.attention.call import Call
from relformer.attention.toeplitz import chunked, flash, geometry, short
from relformer.encodings import PositionalEncoding
from relformer.registry import encodings
from tests.encodings.calls import enliven, make, qkv, randn, ready

SERVED = [name for name in encodings if toeplitz.serves(make(name))]
QUERIES, KEYS = 11, 14
LENGTHS = {"right": [9, 14], "one sample of nothing": [0, 6]}

Spans = tuple[range, range]
SPANS: dict[str, Spans] = {
    "square": (range(14), range(14)),
    "rows": (range(3, 14), range(14)),
    "far": (range(2, 13), range(20, 34)),
}


def paddings(keys: int) -> dict[str, Tensor | None]:
    at = torch.arange(keys)
    holes = torch.ones(2, keys, dtype=torch.bool)
    holes[0, 3:5] = holes[1, -1] = holes[1, 0] = False
    right = {name: at < torch.tensor(lengths)[:, None] for name, lengths in LENGTHS.items()}
    return {"none": None, "left": at >= torch.tensor([2, keys])[:, None], "holes": holes, **right}


@pytest.fixture(params=["short", "samples", "chunked", "without flash"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each way through the kernel, on small calls: chunks of a head or two and of a few queries."""
    if request.param == "samples":
        monkeypatch.setattr(short, "ALONE", 1)
    if request.param in ("chunked", "without flash"):
        cut_small(monkeypatch)
    if request.param == "without flash":
        monkeypatch.setattr(flash, "trusted", lambda: False)
    return str(request.param)


def cut_small(monkeypatch: pytest.MonkeyPatch, area: int = 60, block: int = 4) -> None:
    monkeypatch.setattr(toeplitz, "SHORT", 0)
    monkeypatch.setattr(chunked, "CHUNK", area)
    monkeypatch.setattr(geometry, "BLOCK", block)


def outcome(
    backend: Callable[[Call], Tensor] | None,
    encoding: PositionalEncoding,
    spans: Spans,
    dtype: torch.dtype = torch.float32,
    **masks: Any,
) -> list[Tensor]:
    """The output and every gradient, by one backend or by the one that auto chooses."""
    q, k, v = (t.to(dtype).requires_grad_() for t in qkv(len(spans[0]), len(spans[1])))
    encoding.zero_grad()
    call = Call(q, k, v, encoding, ready(encoding, *spans), (q, k), **masks)
    out = (backend or kernel(call, "auto"))(call)
    out.sin().sum().backward()
    gradients = [t.grad for t in (q, k, v)] + [p.grad for p in encoding.parameters() if p.grad is not None]
    assert None not in gradients
    return [out.detach(), *gradients]  # type: ignore[list-item]


def assert_same(got: list[Tensor], wanted: list[Tensor], tolerance: float) -> None:
    assert len(got) == len(wanted)
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


def dense(call: Call) -> Tensor:
    return kernel(call, "dense")(call)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("spans", SPANS)
@pytest.mark.parametrize("name", SERVED)
def test_it_equals_dense(name: str, spans: str, causal: bool, path: str) -> None:
    encoding = make(name)
    enliven(encoding)
    for padding in paddings(14).values():
        masks = {"causal": causal, "padding": padding}
        got = outcome(toeplitz.toeplitz, encoding, SPANS[spans], **masks)
        assert_same(got, outcome(dense, encoding, SPANS[spans], **masks), 2e-5)


def test_the_registry_has_tables_of_every_kind() -> None:
    assert {"t5", "alibi", "simple_bias", "gated_bias", "kerple_log", "window", "compose"} <= set(SERVED)
    assert not {"none", "rope", "shaw", "fire", "cope"} & set(SERVED)
    assert not toeplitz.serves(make("gated_bias", gate="content"))
    assert not toeplitz.serves(make("t5", untie_first=True))


class Tabled(PositionalEncoding):
    """A free table, and hidden distances, some of them between others."""

    def __init__(self, values: Tensor, hidden: set[int]) -> None:
        super().__init__()
        self.values, self.hidden = torch.nn.Parameter(values), hidden

    def table(self, distance: Tensor) -> Tensor:
        return self.values

    def visible(self, distance: Tensor) -> Tensor:
        return torch.tensor([d not in self.hidden for d in distance.tolist()])


@st.composite
def calls(draw: st.DrawFn) -> dict[str, Any]:
    queries, keys = draw(st.integers(2, 9)), draw(st.integers(1, 9))
    first, other = draw(st.integers(0, 9)), draw(st.integers(0, 9))
    lengths = draw(st.none() | st.lists(st.integers(0, keys), min_size=2, max_size=2))
    padding = None if lengths is None else torch.arange(keys) < torch.tensor(lengths)[:, None]
    if padding is None and draw(st.booleans()):
        flags = draw(st.lists(st.booleans(), min_size=2 * keys, max_size=2 * keys))
        padding = torch.tensor(flags).view(2, keys)
    return {
        "spans": (range(first, first + queries), range(other, other + keys)),
        "hidden": draw(st.sets(st.integers(-12, 12), max_size=12)),
        "causal": draw(st.booleans()),
        "padding": padding,
        "learned": draw(st.booleans()),
        "area": draw(st.integers(1, 200)),
        "block": draw(st.integers(1, 6)),
        "mode": draw(st.sampled_from(["short", "samples", "chunked", "without flash"])),
    }


@settings(derandomize=True, deadline=None, database=None, max_examples=150)
@given(calls())
def test_it_equals_dense_on_ragged_calls(case: dict[str, Any]) -> None:
    q_at, k_at = case["spans"]
    encoding = Tabled(randn(3, len(q_at) + len(k_at) - 1).double(), case["hidden"])
    encoding.values.requires_grad_(case["learned"])
    masks = {"causal": case["causal"], "padding": case["padding"]}
    wanted = outcome(dense, encoding, (q_at, k_at), torch.float64, **masks)
    with pytest.MonkeyPatch.context() as patch:
        if case["mode"] in ("chunked", "without flash"):
            cut_small(patch, case["area"], case["block"])
        if case["mode"] == "without flash":
            patch.setattr(flash, "trusted", lambda: False)
        patch.setattr(short, "ALONE", 1 if case["mode"] == "samples" else 2**60)
        assert_same(outcome(toeplitz.toeplitz, encoding, (q_at, k_at), torch.float64, **masks), wanted, 1e-10)


@settings(derandomize=True, deadline=None, database=None, max_examples=150)
@given(calls())
def test_the_geometry_leaves_out_nothing_that_is_seen(case: dict[str, Any]) -> None:
    q_at, k_at = case["spans"]
    q, k, v = qkv(len(q_at), len(k_at))
    encoding = Tabled(randn(3, len(q_at) + len(k_at) - 1), case["hidden"])
    call = Call(q, k, v, encoding, ready(encoding, q_at, k_at), (q, k), None, case["padding"], case["causal"])
    where = geometry.Geometry.of(call, geometry.hidden(call))
    keep = (
        call.keep.expand(2, 1, len(q_at), len(k_at))[:, 0]
        if call.keep is not None
        else torch.ones(2, *q.shape[2:3], len(k_at)).bool()
    )
    assert where.blind or bool(keep.any(-1).all())
    left = keep.clone()
    for some, places, seen in chunked.blocks(where, 2, case["block"]):
        left[some, places, seen] = False
    assert not left.any()


def test_a_window_costs_its_width_and_not_the_length() -> None:
    encoding = make("window", width=2)
    q, k, v = qkv(100, 100)
    call = Call(q, k, v, encoding, ready(encoding, range(100), range(100)), (q, k))
    where = geometry.Geometry.of(call, geometry.hidden(call))
    assert max(seen.stop - seen.start for _, _, seen in chunked.blocks(where, 2, 10)) == 14


class Largest(TorchDispatchMode):
    """The most elements that a tensor made by any operator has."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for one in made if isinstance(made, (tuple, list)) else (made,):
            if isinstance(one, Tensor) and one.untyped_storage().nbytes() >= one.numel() * one.element_size():
                self.seen = max(self.seen, one.numel())
        return made


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("name", "grad"), [("t5", True), ("t5", False), ("alibi", True), ("alibi", False), ("window", True)]
)
def test_a_long_call_makes_nothing_of_length_times_length(
    name: str, grad: bool, causal: bool, padded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunked, "CHUNK", 2**12)
    monkeypatch.setattr(geometry, "BLOCK", 64)
    length = 600
    encoding = make(name)
    inputs = [t[:1].requires_grad_(grad) for t in qkv(length, length)]
    padding = torch.arange(length)[None] < 500 if padded else None
    with Largest() as largest, torch.set_grad_enabled(grad):
        out = attend(*inputs, encoding, ready(encoding, range(length), range(length)), padding=padding, causal=causal)
        if grad:
            out.sum().backward()
    assert out.numel() <= largest.seen < length * length / 4


@pytest.mark.parametrize("name", [n for n in encodings if make(n).acts("table")])
def test_no_mask_that_wants_a_gradient_reaches_the_public_function(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would leave the fast kernel without a word."""
    plain, masks = F.scaled_dot_product_attention, []

    def watched(*args: Any, attn_mask: Tensor | None = None, **others: Any) -> Tensor:
        masks.append(attn_mask)
        return plain(*args, attn_mask=attn_mask, **others)

    monkeypatch.setattr(F, "scaled_dot_product_attention", watched)
    encoding = make(name)
    for length in (6, 200):
        for causal in (False, True):
            inputs = [t.requires_grad_() for t in qkv(length, length)]
            attend(*inputs, encoding, ready(encoding, range(length), range(length)), causal=causal)
    assert all(mask is None or not mask.requires_grad for mask in masks)


def test_flash_attention_is_trusted_here_and_not_where_it_is_off_or_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: Callable[[], bool] = flash.trusted.__wrapped__
    assert tried()
    with torch.inference_mode():
        assert tried(), "the first call of a process may be one that decodes"
    plain = flash.forward

    def off(*args: Any) -> None:
        plain(*args)
        args[-1].add_(1e-3)

    def gone(*args: Any) -> None:
        raise AttributeError("no such operator")

    for other in (off, gone):
        monkeypatch.setattr(flash, "forward", other)
        assert not tried()


def test_which_calls_it_takes() -> None:
    t5, alibi = make("t5"), make("alibi")

    def taken(encoding: PositionalEncoding, q: Any, k: Any, **others: Any) -> bool:
        count = len(q) if isinstance(q, range) else q.shape[1]
        query, key, value = qkv(count, len(k) if isinstance(k, range) else k.shape[1])
        return toeplitz.fits(Call(query, key, value, encoding, ready(encoding, q, k), (query, key), **others))

    sampled = torch.tensor([[0, 2, 5, 9]])
    assert taken(t5, range(4), range(4))
    assert not taken(t5, range(3, 4), range(4)), "a step of one token"
    assert not taken(t5, sampled, sampled)
    assert not taken(t5, range(4), range(4), dropout=0.1)
    assert not taken(alibi, range(4), range(4)), "a short bias that is fixed serves as a mask"
    assert taken(alibi, range(4), range(4), padding=torch.ones(2, 4, dtype=torch.bool))
    assert taken(alibi, range(300), range(300))
    assert not taken(make("shaw"), range(4), range(4))


@pytest.mark.parametrize("length", [6, 200])
def test_a_second_derivative_is_refused(length: int) -> None:
    encoding = make("t5")
    q, k, v = (t.requires_grad_() for t in qkv(length, length))
    out = attend(q, k, v, encoding, ready(encoding, range(length), range(length)))
    (slope,) = torch.autograd.grad(out.square().sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", ["t5", "alibi"])
def test_bfloat16_loses_no_more_than_dense(name: str, causal: bool, path: str) -> None:
    encoding = make(name)
    enliven(encoding)
    padding = paddings(14)["right"]
    masks = {"causal": causal, "padding": padding}
    exact = outcome(dense, encoding, SPANS["square"], **masks)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = outcome(toeplitz.toeplitz, encoding, SPANS["square"], torch.bfloat16, **masks)
    assert got[0].dtype == got[1].dtype == torch.bfloat16
    for one, other in zip(got, exact, strict=True):
        torch.testing.assert_close(one.float(), other, rtol=0.05, atol=0.05)
