"""The table of clipped distances, plain and gated: which row a pair reads, at every length."""

import pytest
import torch

from relformer.encodings import LengthError
from tests.encodings.calls import enliven, make, pair_bias, put

NAMES = ("simple_bias", "gated_bias")


def numbered(role: str, max_length: int) -> torch.nn.Module:
    """A table whose entries are the numbers of their rows."""
    encoding = make("simple_bias", role, heads=1, max_length=max_length)
    rows = torch.arange(len(encoding.distance_weight), dtype=torch.float32)
    put(encoding, distance_weight=rows[:, None])
    return encoding


@pytest.mark.parametrize("role", ["encoder", "cross"])
@pytest.mark.parametrize("length", [2, 5, 50])
def test_a_distance_reads_the_same_row_at_every_length(role: str, length: int) -> None:
    """The offset is that of the table, M - 1, and not that of the sequence."""
    bias = pair_bias(numbered(role, 100), range(length), range(length))[0, 0]
    i, j = torch.arange(length)[:, None], torch.arange(length)
    assert torch.equal(bias, (j - i + 99).float())


@pytest.mark.parametrize("length", [5, 50])
def test_a_decoder_stores_the_past_alone(length: int) -> None:
    encoding = numbered("decoder", 100)
    assert tuple(encoding.distance_weight.shape) == (100, 1)
    bias = pair_bias(encoding, range(length), range(length))[0, 0]
    i, j = torch.arange(length)[:, None], torch.arange(length)
    past = j <= i
    assert torch.equal(bias[past], (j - i + 99).float()[past])


def test_a_decode_row_reads_its_own_row() -> None:
    bias = pair_bias(numbered("decoder", 10), range(6, 7), range(7))[0, 0, 0]
    assert bias.tolist() == [3, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("role", ["encoder", "decoder"])
@pytest.mark.parametrize("name", NAMES)
def test_every_row_gets_a_gradient(name: str, role: str) -> None:
    encoding = make(name, role, max_length=6)
    pair_bias(encoding, range(9), range(9)).square().sum().backward()
    for p in encoding.parameters():
        assert p.grad is not None
        assert (p.grad != 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_distances_beyond_the_table_read_its_ends(name: str) -> None:
    encoding = make(name, max_length=4)
    enliven(encoding)
    bias = pair_bias(encoding, range(50), range(50))[0]
    assert torch.equal(bias[:, 3:, 0], bias[:, 3:4, 0].expand(-1, 47))
    assert torch.equal(bias[:, 0, 3:], bias[:, 0, 3:4].expand(-1, 47))
    assert len(bias[0, 10].unique()) == 7  # -3..3, and nothing wraps


@pytest.mark.parametrize("positions", [range(5), torch.tensor([[0, 2, 4]])], ids=["range", "sampled"])
@pytest.mark.parametrize("name", NAMES)
def test_overflow_can_be_an_error(name: str, positions: range | torch.Tensor) -> None:
    encoding = make(name, max_length=4, overflow="error")
    encoding.path = "decoder_encoding"
    with pytest.raises(LengthError, match=r"decoder_encoding\.max_length=4\b.*decoder_encoding\.max_length=5\b"):
        pair_bias(encoding, positions, positions)
    pair_bias(encoding, range(4), range(4))


@pytest.mark.parametrize("name", NAMES)
def test_the_number_of_positions_ends_only_where_overflow_is_an_error(name: str) -> None:
    assert make(name, max_length=4).max_positions() is None
    assert make(name, max_length=4, overflow="error").max_positions() == 4


@pytest.mark.parametrize("name", NAMES)
def test_starts(name: str) -> None:
    uniform = make(name).distance_weight
    assert 0.05 < uniform.abs().max() <= 0.1
    assert (make(name, init="zeros").distance_weight == 0).all()


def test_gate_and_scale_start_at_one_and_zero() -> None:
    gated, simple = make("gated_bias"), make("simple_bias")
    put(gated, distance_weight=simple.distance_weight)
    ratio = pair_bias(gated, range(9), range(9)) / pair_bias(simple, range(9), range(9))
    torch.testing.assert_close(ratio, torch.full_like(ratio, float(torch.tensor(1.0).sigmoid())))


def test_gate_and_scale_have_no_gradient_where_the_table_is_zero() -> None:
    gated = make("gated_bias", init="zeros")
    pair_bias(gated, range(9), range(9)).sum().backward()
    assert gated.gate.grad is not None
    assert (gated.gate.grad == 0).all()
    assert (gated.log_scale.grad == 0).all()
    assert (gated.distance_weight.grad != 0).any()


@pytest.mark.parametrize("role", ["encoder", "decoder", "cross"])
def test_heads_may_share_one_table(role: str) -> None:
    encoding = make("simple_bias", role, heads=3, max_length=6, per_head=False)
    enliven(encoding)
    assert encoding.distance_weight.shape[1] == 1
    bias = pair_bias(encoding, range(9), range(9))[0]
    assert len(bias) == 3 and len(bias[0].unique()) > 5
    assert torch.equal(bias[0], bias[1]) and torch.equal(bias[0], bias[2])
