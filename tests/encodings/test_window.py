"""The window: which keys each query sees, by role, and that it changes nothing else."""

import pytest
import torch

from relformer.attention import attend
from relformer.attention.call import Call
from tests.encodings.calls import make, probabilities, qkv, ready

BY_ROW = torch.tensor([[0, 2, 3, 7, 8, 30], [1, 4, 5, 6, 21, 22]])


@pytest.mark.parametrize("width", [0, 1, 3])
@pytest.mark.parametrize(("role", "sides"), [("encoder", 2), ("cross", 2), ("decoder", 1)])
def test_what_is_seen(role: str, sides: int, width: int) -> None:
    encoding = make("window", role, width=width)
    for at in (range(6), BY_ROW):
        q, k, v = qkv(len(at), len(at))
        keep = Call(q, k, v, encoding, ready(encoding, at, at), (q, k), causal=role == "decoder").keep
        assert keep is not None
        for row, seen in zip([list(range(6))] if isinstance(at, range) else BY_ROW.tolist(), keep[:, 0], strict=True):
            reach = [[-width * (sides - 1) <= i - j <= width for j in row] for i in row]
            assert seen.tolist() == reach


def test_a_wide_window_is_plain_attention() -> None:
    q, k, v = qkv(6, 6)
    outputs = [attend(q, k, v, e, ready(e, range(6), range(6))) for e in (make("window", width=5), make("none"))]
    torch.testing.assert_close(outputs[0], outputs[1])


def test_queries_of_cross_attention_beyond_the_source_get_zeros() -> None:
    encoding = make("window", "cross", width=2)
    q, k, v = qkv(8, 3)
    span = ready(encoding, range(8), range(3))
    assert (attend(q, k, v, encoding, span)[:, :, 5:] == 0).all()
    assert (probabilities(q, k, encoding, span)[:, :, :5].sum(-1) - 1).abs().max() < 1e-5


def test_there_is_nothing_to_learn() -> None:
    assert list(make("window").parameters()) == []
