"""CoPE: the package's term, what its positions count, and where it is refused."""

import pytest
import torch
from torch import Tensor

from relformer.attention import attend
from relformer.encodings import PositionalEncoding
from relformer.errors import OptionError, UserError
from relformer.model import ModelOptions
from relformer.model.slot import build_slot
from tests.encodings.calls import enliven, fixture, make, probabilities, put, qkv, randn, ready
from tests.model.models import build, check_cache, check_padding

CAUSAL = torch.ones(7, 7).tril().bool()[None, None]


def term(encoding: PositionalEncoding, q: Tensor, logits: Tensor, keep: Tensor | None) -> Tensor:
    """What the encoding adds to logits (B, H, L, L)."""
    span = ready(encoding, range(logits.shape[-1]), range(logits.shape[-1]))
    return encoding.score(logits, q, q, None, span, keep) - logits


def test_the_term_of_the_reference() -> None:
    case = fixture("contextual_position")
    encoding = make("cope", heads=2, head_dim=6, p_max=4)
    put(encoding, count_rows=case["param.pos_emb"])
    logits = case["logits"].masked_fill(~CAUSAL, 0.0)  # beside -finfo.max the term would vanish in rounding
    torch.testing.assert_close(term(encoding, case["q"], logits, CAUSAL), case["term"], rtol=0, atol=2e-5)


def test_probabilities_of_the_reference() -> None:
    case = fixture("contextual_position")
    encoding = make("cope", heads=2, head_dim=6, p_max=4)
    put(encoding, count_rows=case["param.pos_emb"])
    q, span = case["q"], ready(encoding, range(7), range(7))
    scores = encoding.score(case["logits"], q, q, None, span, CAUSAL).softmax(-1)
    torch.testing.assert_close(scores, (case["logits"] + case["term"]).softmax(-1), rtol=0, atol=2e-5)


@torch.no_grad()
def test_open_gates_make_it_a_relative_table() -> None:
    """With logits far above zero a position is i - j + 1, the query itself counted, up to the table's last row."""
    encoding = make("cope", p_max=4)
    enliven(encoding)
    q = randn(2, 3, 7, 8)
    distance = torch.arange(7)[:, None] - torch.arange(7)
    rows = encoding.count_rows[(distance + 1).clamp(0, 3)]  # (7, 7, D)
    wanted = torch.einsum("bhid,ijd->bhij", q, rows)
    got = term(encoding, q, torch.full((2, 3, 7, 7), 40.0), CAUSAL)
    torch.testing.assert_close(got.tril(), wanted.tril(), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_hidden_keys_count_nothing() -> None:
    """Neither the future nor padding moves the positions of the others, however loud their logits."""
    encoding = make("cope", p_max=5)
    enliven(encoding)
    q, logits = randn(1, 3, 7, 8), randn(1, 3, 7, 7, seed=1)
    keep = CAUSAL.clone()
    keep[..., 4] = False
    loud = logits.masked_fill(~keep, 30.0)
    plain, moved = term(encoding, q, logits, keep), term(encoding, q, loud, keep)
    seen = keep.expand_as(plain)
    torch.testing.assert_close(moved[seen], plain[seen], rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_the_count_goes_from_the_key_to_the_query_without_a_mask_too() -> None:
    encoding = make("cope")
    enliven(encoding)
    q, logits = randn(1, 3, 7, 8), randn(1, 3, 7, 7, seed=1)
    torch.testing.assert_close(term(encoding, q, logits, None).tril(), term(encoding, q, logits, CAUSAL).tril())


def test_it_starts_as_plain_attention() -> None:
    q, k, v = qkv(6, 6)
    encoding, none = make("cope"), make("none")
    out, plain = (attend(q, k, v, e, ready(e, range(6), range(6)), causal=True) for e in (encoding, none))
    torch.testing.assert_close(out, plain)
    assert {n: tuple(p.shape) for n, p in encoding.named_parameters()} == {"count_rows": (64, 8)}
    assert encoding.share == "layer"


def test_gates_pass_gradients_to_queries_and_keys() -> None:
    """The derivative by the fraction between two rows, against finite differences."""
    encoding = make("cope", p_max=6)
    enliven(encoding)
    logits = randn(1, 3, 7, 7, seed=2).requires_grad_()
    q = randn(1, 3, 7, 8)
    term(encoding, q, logits, CAUSAL)[CAUSAL.expand(1, 3, 7, 7)].sum().backward()
    with torch.no_grad():
        step = torch.zeros_like(logits)
        step[0, 1, 5, 3] = 1e-2
        up, down = (term(encoding, q, logits + s, CAUSAL)[0, 1, 5].sum() for s in (step, -step))
    assert logits.grad is not None
    assert float(logits.grad[0, 1, 5, 3]) == pytest.approx(float(up - down) / 2e-2, rel=2e-2, abs=1e-3)


def test_decoding_keeps_positions_when_a_table_is_exceeded() -> None:
    for p_max in (2, 3, 30):
        model = build("cope", p_max=p_max)
        check_cache(model)
        check_padding(model)


def test_padded_keys_are_left_out_of_the_weights() -> None:
    encoding = make("cope")
    enliven(encoding)
    q, k, _ = qkv(6, 6)
    padding = torch.ones(2, 6, dtype=torch.bool)
    padding[:, 2] = False
    weights = probabilities(q, k, encoding, ready(encoding, range(6), range(6)), padding=padding, causal=True)
    without = [0, 1, 3, 4, 5]
    at = torch.tensor([without])
    short = probabilities(q[:, :, without], k[:, :, without], encoding, ready(encoding, at, at), causal=True)
    torch.testing.assert_close(weights[:, :, without][..., without], short, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("role", "path", "remedy"),
    [
        ("encoder", "encoding", "use encoding=t5 decoder_encoding=cope"),
        ("cross", "cross_encoding", "use decoder_encoding=cope cross_encoding=none"),
    ],
)
def test_it_is_refused_where_nothing_lies_between_key_and_query(role: str, path: str, remedy: str) -> None:
    with pytest.raises(UserError, match=rf"^{path}=cope can't serve .*{remedy}$"):
        build_slot({"name": "cope"}, role, path, ModelOptions(width=24, heads=3))  # type: ignore[arg-type]


def test_a_table_of_one_row_is_refused() -> None:
    with pytest.raises(OptionError, match=r"p_max=1 must be at least 2"):
        make("cope", p_max=1)
