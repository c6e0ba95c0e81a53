"""TUPE against the fixture: position to position, the first token apart, terms and their scale."""

import pytest
import torch
from torch import Tensor

from relformer.encodings import LengthError, PositionalEncoding, Positions
from relformer.model import ModelOptions
from relformer.model.slot import build_slot
from tests.encodings.calls import enliven, fixture, make, pair_bias, put, ready

CASE = fixture("oracle_only")


def bias_of(encoding: PositionalEncoding, q: Positions, k: Positions) -> Tensor:
    bias = encoding.bias(ready(encoding, q, k))
    assert bias is not None
    return bias[0]


def loaded(cls: bool) -> PositionalEncoding:
    """The fixture's weights; its table has the reserved row in front in both cases."""
    encoding = make("tupe_a", heads=2, head_dim=4, max_length=6, cls=cls)
    names = {"query_weight": CASE["tupe.Wq"], "query_bias": CASE["tupe.bq"], "norm_weight": CASE["tupe.ln_w"]}
    names |= {"key_weight": CASE["tupe.Wk"], "key_bias": CASE["tupe.bk"], "norm_bias": CASE["tupe.ln_b"]}
    names["positions"] = CASE["tupe.P"] if cls else CASE["tupe.P"][1:]
    put(encoding, **{f"tupe_{name}": value for name, value in names.items()})
    return encoding


@pytest.mark.parametrize("cls", [True, False])
def test_bias_of_the_oracle(cls: bool) -> None:
    wanted = CASE["tupe.bias_cls" if cls else "tupe.bias_nocls"]
    torch.testing.assert_close(bias_of(loaded(cls), range(6), range(6)), wanted, rtol=1e-5, atol=2e-5)
    torch.testing.assert_close(bias_of(loaded(cls), range(3, 6), range(6)), wanted[:, 3:], rtol=1e-5, atol=2e-5)


def test_scale_follows_the_number_of_terms() -> None:
    assert make("tupe_a", head_dim=8).scale(8) == pytest.approx(16**-0.5)
    assert make("tupe_r", head_dim=8, terms=["c2c"]).scale(8) == pytest.approx(8**-0.5)
    assert make("tupe_a", head_dim=8, terms=["p2p"]).scale(8) == 0
    both, alone = make("tupe_a"), make("tupe_a", terms=["p2p"])
    ratio = bias_of(alone, range(5), range(5)) / bias_of(both, range(5), range(5))
    torch.testing.assert_close(ratio, torch.full_like(ratio, 2**0.5))


def test_tupe_r_adds_t5() -> None:
    encoding, plain, t5 = make("tupe_r"), make("tupe_a"), make("t5")
    put(plain, **{name: p for name, p in encoding.named_parameters() if name.startswith("tupe")})
    put(t5, bucket_weight=encoding.relative.bucket_weight)
    assert torch.equal(bias_of(encoding, range(9), range(9)), bias_of(plain, range(9), range(9)))
    assert torch.equal(pair_bias(encoding, range(9), range(9)), pair_bias(t5, range(9), range(9)))


@pytest.mark.parametrize("name", ["tupe_a", "tupe_r"])
def test_the_first_token_apart_has_one_value_a_head_and_side(name: str) -> None:
    encoding = make(name, cls=True)
    enliven(encoding)
    assert not encoding.acts("table")
    bias = bias_of(encoding, range(6), range(6))
    assert (bias[:, 0] == bias[:, :1, 0]).all()
    assert (bias[:, 1:, 0] == bias[:, 1:2, 0]).all()
    assert (bias[:, 0, 0] != bias[:, 1, 0]).all()
    assert bias_of(encoding, range(1, 6), range(1, 6)).unique().numel() > 40


@pytest.mark.parametrize("name", ["tupe_a", "tupe_r"])
def test_a_position_beyond_the_table_is_an_error(name: str) -> None:
    encoding = make(name, max_length=5)
    ready(encoding, range(5), range(5))
    for q, k in ((range(6), range(2)), (range(2), range(6)), (torch.tensor([[0, 5]]), range(3))):
        with pytest.raises(LengthError, match=r"encoding\.max_length=6 or more"):
            ready(encoding, q, k)
    assert encoding.max_positions() == 5
    assert make("tupe_r", terms=["c2c"], max_length=5).max_positions() is None


def test_keys_of_cross_attention_have_a_table_of_their_own() -> None:
    encoding = make("tupe_a", "cross")
    before = bias_of(encoding, range(4), range(4))
    with torch.no_grad():
        encoding.tupe_key_positions.normal_()
    assert not torch.allclose(bias_of(encoding, range(4), range(4)), before)
    assert make("tupe_a").tupe_key_positions is None


def test_heads_may_be_wider_than_their_share() -> None:
    """`model.head_dim`: positions are projected to as many numbers a head as contents are, and scaled alike."""
    model = {"width": 16, "heads": 2, "head_dim": 12}
    slot = build_slot({"name": "tupe_a", "max_length": 6}, "encoder", "encoding", ModelOptions(**model))
    encoding = slot.first
    assert encoding.tupe_query_weight.shape == encoding.tupe_key_weight.shape == (24, 16)
    assert bias_of(encoding, range(5), range(5)).shape == (2, 5, 5) and encoding.scale(12) == 24**-0.5
