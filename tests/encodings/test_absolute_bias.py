"""The table of pairs of positions: which entry a pair reads, and where the table ends."""

import pytest
import torch

from relformer.encodings import LengthError, PositionalEncoding, Positions
from tests.encodings.calls import make, put, ready

BY_ROW = torch.tensor([[0, 2, 5], [1, 3, 4]])


def numbered() -> PositionalEncoding:
    """An entry is 100 h + 10 i + j."""
    encoding = make("absolute_bias", heads=2, max_length=6)
    h, i, j = torch.meshgrid(torch.arange(2.0), torch.arange(6.0), torch.arange(6.0), indexing="ij")
    put(encoding, pair_weight=100 * h + 10 * i + j)
    return encoding


@pytest.mark.parametrize(
    ("q", "k"),
    [(range(6), range(6)), (range(4, 6), range(6)), (range(3), range(2, 4)), (BY_ROW, BY_ROW), (BY_ROW, range(4))],
)
def test_a_pair_reads_its_own_entry(q: Positions, k: Positions) -> None:
    encoding = numbered()
    bias = encoding.bias(ready(encoding, q, k))
    assert bias is not None
    rows = [[list(p)] * 2 if isinstance(p, range) else p.tolist() for p in (q, k)]
    for b, head in enumerate(bias):
        for h in (0, 1):
            assert head[h].tolist() == [[100 * h + 10 * i + j for j in rows[1][b]] for i in rows[0][b]]


@pytest.mark.parametrize(("q", "k"), [(range(7), range(2)), (range(2), range(7)), (BY_ROW, BY_ROW + 2)])
def test_a_position_beyond_the_table_is_an_error(q: Positions, k: Positions) -> None:
    encoding = numbered()
    encoding.path = "decoder_encoding"
    with pytest.raises(LengthError, match=r"decoder_encoding\.max_length=6\b.*set decoder_encoding\.max_length="):
        ready(encoding, q, k)
    assert encoding.max_positions() == 6


def test_starts_as_simple_bias_does() -> None:
    weight = make("absolute_bias").pair_weight
    assert 0.099 < weight.abs().max() <= 0.1
    assert (make("absolute_bias", init="zeros").pair_weight == 0).all()
    assert make("absolute_bias").share == make("simple_bias").share
