"""Learned positions: which row a token reads, and where the table ends."""

import pytest
import torch

from relformer.decoding import greedy
from relformer.encodings import LengthError, PositionalEncoding, Positions
from relformer.errors import UserError
from relformer.model import Seq2Seq, build_model, positions_needed
from tests.encodings.calls import fixture, make, put


def rows_read(positions: Positions, batch: int = 1) -> torch.Tensor:
    """Which row of the table each token reads, from a table that holds the numbers of its rows."""
    encoding = make("learned", max_length=20)
    put(encoding, position_weight=torch.arange(20.0)[:, None].expand(20, 24))
    length = len(positions) if isinstance(positions, range) else positions.shape[1]
    out = encoding.embed(torch.zeros(batch, length, 24), torch.ones(batch, length, dtype=torch.long), positions)
    assert (out == out[..., :1]).all()
    return out[..., 0].long()


def test_rows_of_bart_but_for_its_offset() -> None:
    case = fixture("learned_offsets")
    assert torch.equal(rows_read(range(5), 2), case["bart"] - 2)
    assert torch.equal(rows_read(range(3, 8), 2), case["bart_cache3"] - 2)


def test_rows_of_opt_but_for_its_offset_and_padding() -> None:
    """OPT counts real tokens; positions given by row do the same."""
    case = fixture("learned_offsets")
    real = case["mask"].bool()
    positions = (case["mask"].cumsum(1) - 1).clamp(min=0)
    assert torch.equal(rows_read(positions, 2)[real], (case["opt"] - 2)[real])


def test_hierarchical_rows_are_those_of_the_fixture() -> None:
    case = fixture("oracle_only")
    encoding = make("learned", heads=1, head_dim=4, max_length=3, extend="hierarchical", extend_to=9)
    put(encoding, position_weight=case["hierarchical.table3"])
    rows = encoding.embed(torch.zeros(1, 9, 4), torch.ones(1, 9, dtype=torch.long), range(9))[0]
    torch.testing.assert_close(rows, case["hierarchical.rows0_8"], rtol=1e-5, atol=1e-6)


def short() -> PositionalEncoding:
    encoding = make("learned", max_length=6)
    encoding.path = "decoder_encoding"
    return encoding


@pytest.mark.parametrize(
    "positions",
    [range(7), range(6, 7), torch.tensor([[0, 3, 6]]), torch.tensor([[0, 1], [2, 6]])],
    ids=["range", "decode row", "sampled", "by row"],
)
def test_a_position_beyond_the_table_is_an_error_with_a_remedy(positions: Positions) -> None:
    x = torch.zeros(2, 7 if isinstance(positions, range) else positions.shape[1], 24)
    with pytest.raises(LengthError) as caught:
        short().embed(x, torch.ones(2, x.shape[1], dtype=torch.long), positions)
    assert "7 positions exceeds decoder_encoding.max_length=6" in str(caught.value)
    assert "set decoder_encoding.max_length=7 or more" in str(caught.value)


def test_the_whole_table_can_be_used() -> None:
    short().embed(torch.zeros(1, 6, 24), torch.ones(1, 6, dtype=torch.long), range(6))
    assert short().max_positions() == 6


def model(**encoding: object) -> Seq2Seq:
    config = {
        "seed": 1,
        "model": {"width": 24, "heads": 3, "feedforward": 16},
        "encoding": {"name": "none"},
        "decoder_encoding": {"name": "learned", "max_length": 6} | encoding,
    }
    return build_model(config, 11, 11)


@torch.no_grad()
def test_cached_decoding_past_the_table_is_the_same_error() -> None:
    source = torch.tensor([[3, 4, 5]])
    built = model()
    cache = built.start(source, 20)
    for _ in range(6):
        built.step(torch.tensor([[3]]), cache)
    with pytest.raises(LengthError, match=r"7 positions exceeds decoder_encoding\.max_length=6"):
        built.step(torch.tensor([[3]]), cache)
    with pytest.raises(LengthError, match=r"7 positions exceeds decoder_encoding\.max_length=6"):
        built(source, torch.full((1, 7), 3))
    with pytest.raises(LengthError, match=r"decoder_encoding\.max_length=6"):
        greedy(built, source, 20, bos=1, eos=-1)


def test_lengths_are_refused_before_training() -> None:
    positions_needed(model(), 100, 6)
    with pytest.raises(UserError, match=r"longest target has 7 positions.*decoder_encoding\.max_length=6"):
        positions_needed(model(), 100, 7)


@pytest.mark.parametrize(("options", "std"), [({}, 1.0), ({"init_std": 0.02}, 0.02)])
def test_rows_start_with_the_deviation_of_the_tokens_unless_set(options: dict[str, float], std: float) -> None:
    rows = make("learned", max_length=2000, **options).position_weight.detach()
    assert float(rows.std()) == pytest.approx(std, rel=0.02)


def test_only_the_rows_read_get_a_gradient() -> None:
    encoding = make("learned", max_length=9)
    encoding.embed(torch.zeros(1, 3, 24), torch.ones(1, 3, dtype=torch.long), range(2, 5)).square().sum().backward()
    assert encoding.position_weight.grad is not None
    assert encoding.position_weight.grad.any(1).nonzero().flatten().tolist() == [2, 3, 4]
