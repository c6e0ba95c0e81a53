"""Shaw's relative keys and values against two packages, and where one of them departs from the paper."""

import pytest
import torch
from torch import Tensor

from relformer.attention import attend
from relformer.encodings import PositionalEncoding, Span
from tests.encodings.calls import enliven, fixture, joined, linear, make, probabilities, project, put, qkv, ready
from tests.model.models import build, check_cache


def vits(case: dict[str, Tensor], window: int, zero_outside: bool = False) -> PositionalEncoding:
    encoding = make("shaw", heads=2, head_dim=6, max_distance=window, zero_outside=zero_outside)
    put(encoding, key_rows=case["param.emb_rel_k"][0], value_rows=case["param.emb_rel_v"][0])
    return encoding


def test_keys_of_the_reference() -> None:
    """Its window reaches 3 back and 2 ahead; a table of 3 both ways with the last row twice says the same."""
    case = fixture("shaw_keys")
    rows = case["param.distance_embedding.weight"]
    encoding = make("shaw", heads=2, head_dim=6, max_distance=3, values=False)
    put(encoding, key_rows=torch.cat((rows, rows[-1:])))
    q, k, v = (project(case["x"], case, f"linear_{layer}", 2) for layer in "qkv")
    span = ready(encoding, range(8), range(8))
    torch.testing.assert_close(probabilities(q, k, encoding, span), case["probs"], rtol=0, atol=2e-5)
    out = attend(q, k, v, encoding, span, backend="dense")
    torch.testing.assert_close(linear(joined(out), case, "linear_out"), case["y"], rtol=0, atol=1e-4)


def test_keys_and_values_of_the_reference() -> None:
    case = fixture("shaw_keys_values")
    encoding = vits(case, 4)
    q, k, v = (project(case["x"], case, f"{layer}_proj", 2) for layer in "qkv")
    span = ready(encoding, range(5), range(5))
    torch.testing.assert_close(probabilities(q, k, encoding, span), case["probs"], rtol=0, atol=2e-5)
    out = attend(q, k, v, encoding, span, backend="dense")
    torch.testing.assert_close(linear(joined(out), case, "out_proj"), case["y"], rtol=0, atol=1e-4)


def test_a_window_outside_which_nothing_is_added() -> None:
    case = fixture("shaw_window_zero")
    encoding = vits(case, 2, zero_outside=True)
    q, k, v = (project(case["x"], case, f"{layer}_proj", 2) for layer in "qkv")
    span = ready(encoding, range(7), range(7))
    torch.testing.assert_close(probabilities(q, k, encoding, span), case["probs"], rtol=0, atol=2e-5)
    out = attend(q, k, v, encoding, span, backend="dense")
    torch.testing.assert_close(linear(joined(out), case, "out_proj"), case["y"], rtol=0, atol=1e-4)


def test_zero_outside_changes_nothing_inside_and_adds_no_parameter() -> None:
    outputs = []
    for zero in (False, True):
        encoding = make("shaw", max_distance=5, zero_outside=zero)
        enliven(encoding)
        outputs.append(attend(*qkv(6, 6), encoding, ready(encoding, range(6), range(6))))
        assert encoding.key_rows.shape == encoding.value_rows.shape == (11, 8)
    torch.testing.assert_close(*outputs)
    check_cache(build("shaw@cross", max_distance=2, zero_outside=True))


def test_the_reference_drops_what_lies_beyond_the_window_where_shaw_clips() -> None:
    """Log-probability ratios of two keys in the window agree; those of a key outside differ."""
    case = fixture("shaw_window_zero")
    encoding = vits(case, 2)
    q, k = (project(case["x"], case, f"{layer}_proj", 2) for layer in "qk")
    ours = probabilities(q, k, encoding, ready(encoding, range(7), range(7))).log()
    theirs = case["probs"].log()
    distance = torch.arange(7)[:, None] - torch.arange(7)
    gap = (ours - ours.diagonal(dim1=2, dim2=3)[..., None]) - (theirs - theirs.diagonal(dim1=2, dim2=3)[..., None])
    inside = distance.abs() <= 2
    assert gap[..., inside].abs().max() < 2e-5
    assert gap[..., ~inside].abs().min() > 1e-4

    outside_zero = q @ encoding.key_rows[[0, 4]].mT / 6**0.5  # the term that the reference leaves out: (1, 2, 7, 2)
    left_out = torch.where(distance > 0, outside_zero[..., :1], outside_zero[..., 1:])
    torch.testing.assert_close(gap[..., ~inside], left_out[..., ~inside], rtol=0, atol=2e-5)


def test_distances_beyond_the_table_read_its_last_rows() -> None:
    encoding = make("shaw", max_distance=2)
    enliven(encoding)
    wide = make("shaw", max_distance=9)
    clipped = torch.arange(-9, 10).clamp(-2, 2) + 2
    put(wide, key_rows=encoding.key_rows[clipped], value_rows=encoding.value_rows[clipped])
    q, k, v = qkv(10, 10)
    near, far = (attend(q, k, v, e, ready(e, range(10), range(10)), backend="dense") for e in (encoding, wide))
    torch.testing.assert_close(near, far)


@pytest.mark.parametrize(("keys", "values"), [(True, False), (False, True), (True, True)])
def test_each_table_is_optional(keys: bool, values: bool) -> None:
    encoding = make("shaw", keys=keys, values=values)
    names = {name for name, _ in encoding.named_parameters()}
    assert names == {name for name, there in (("key_rows", keys), ("value_rows", values)) if there}


def test_relative_values_alone_leave_the_probabilities_alone() -> None:
    encoding = make("shaw", keys=False)
    enliven(encoding)
    q, k, v = qkv(6, 6)
    span = ready(encoding, range(6), range(6))
    weights = (q @ k.mT / 8**0.5).softmax(-1)
    torch.testing.assert_close(probabilities(q, k, encoding, span), weights, rtol=1e-5, atol=1e-6)
    assert not torch.allclose(attend(q, k, v, encoding, span), weights @ v, atol=1e-2)


def test_the_key_term_never_expands_to_pairs_times_channels() -> None:
    """Queries meet the rows of the table, not a (Q, K, D) tensor: no intermediate is larger than the scores."""
    encoding = make("shaw", max_distance=2)
    q, k, v = qkv(64, 64, batch=1)
    largest = 0

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            largest = max(largest, out.numel() if isinstance(out, Tensor) else 0)
            return out

    with Watch():
        attend(q, k, v, encoding, ready(encoding, range(64), range(64)), backend="dense")
    assert largest == 3 * 64 * 64


@torch.no_grad()
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_probabilities_of_a_row_are_summed_whole_in_bfloat16(device: str) -> None:
    """Of 1000 keys most lie beyond the window and share a row: a sum that is rounded at every step stops at a fraction.
    A CPU sums in float32 by itself; a GPU adds to the row one by one."""
    encoding = make("shaw", heads=1, max_distance=2)
    put(encoding, value_rows=torch.ones_like(encoding.value_rows))
    encoding.to(device, torch.bfloat16)
    weights = torch.full((1, 1, 1, 1000), 1e-3, dtype=torch.bfloat16, device=device)
    span = Span.between(range(999, 1000), range(1000), 1000, torch.device(device))
    found = encoding.value(weights, encoding.ready(span))
    assert found is not None and found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float().cpu(), torch.ones(1, 1, 1, 8), rtol=0.01, atol=0)
