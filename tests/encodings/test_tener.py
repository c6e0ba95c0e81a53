"""TENER: numbers cross-checked with the authors' code, its third term, its scale and its sense of direction."""

import pytest
import torch
from torch import Tensor

from relformer.attention import attend
from relformer.encodings.sinusoid import sinusoid
from relformer.errors import UserError
from tests.encodings.calls import enliven, fixture, make, probabilities, put, qkv, ready
from tests.model.models import build, check_cache


@pytest.mark.parametrize(("key_term", "stored"), [(True, "tener.scores"), (False, "tener.scores_paper")])
def test_scores_of_the_code_and_of_the_paper(key_term: bool, stored: str) -> None:
    case = fixture("oracle_only")
    encoding = make("tener", heads=2, head_dim=4, key_term=key_term)
    put(encoding, tener_u=case["qkv.u"], tener_w=case["qkv.w"])
    q, k = case["qkv.q"][None], case["qkv.k"][None]
    span = ready(encoding, range(6), range(6))
    scores = encoding.score(encoding.query(q, span) @ k.mT * encoding.scale(4), q, k, None, span, None)
    torch.testing.assert_close(scores[0], case[stored], rtol=0, atol=2e-5)
    weights = probabilities(q, k, encoding, span)
    torch.testing.assert_close(weights[0], case[stored].softmax(-1), rtol=0, atol=2e-5)


def test_the_two_formulas_differ() -> None:
    """Guards the test above."""
    case = fixture("oracle_only")
    assert (case["tener.scores"] - case["tener.scores_paper"]).abs().max() > 0.5


def test_scale_multiplies_every_term() -> None:
    """Dividing by the root of the head size is the same as making queries, keys' term and biases smaller by it."""
    q, k, _ = qkv(5, 5)
    one, rooted = make("tener"), make("tener", scale=None)
    logits = []
    for encoding in (one, rooted):
        enliven(encoding)
        span = ready(encoding, range(5), range(5))
        content = encoding.query(q, span) @ k.mT * encoding.scale(8)
        logits.append(encoding.score(content, q, k, None, span, None))
    torch.testing.assert_close(logits[1], logits[0] / 8**0.5)


def directed(encoding: torch.nn.Module, ahead: int) -> Tensor:
    """The logits of one query over the same key, before it or behind it."""
    q, k, _ = qkv(1, 1)
    span = ready(encoding, range(50, 51), range(50 + ahead, 51 + ahead))
    return encoding.score(q @ k.mT, q, k, None, span, None)


def test_it_tells_directions_apart_by_the_sines_alone() -> None:
    encoding = make("tener", key_term=False)
    assert not torch.allclose(directed(encoding, 3), directed(encoding, -3), atol=1e-2)
    ahead, back = sinusoid(torch.tensor([3, -3]), 8, "fairseq")
    torch.testing.assert_close(ahead[:4], -back[:4])
    torch.testing.assert_close(ahead[4:], back[4:])


def test_parameters_are_one_pair_a_layer_and_only_those_that_are_read() -> None:
    assert {n: tuple(p.shape) for n, p in make("tener").named_parameters()} == {"tener_u": (3, 8), "tener_w": (3, 8)}
    assert [n for n, _ in make("tener", terms=["c2c", "p2c"]).named_parameters()] == ["tener_u"]
    assert not list(make("tener", terms=["c2c", "c2p"]).named_parameters())
    first, second = build("tener").slots["encoder"].encodings
    assert not torch.equal(first.tener_u, second.tener_u)


@pytest.mark.parametrize("options", [{"key_term": False}, {"scale": None}, {"terms": ["c2p"]}], ids=str)
def test_options_decode_from_the_cache(options: dict) -> None:  # type: ignore[type-arg]
    check_cache(build("tener@cross", **options))


def test_an_odd_head_has_no_sinusoid() -> None:
    with pytest.raises(UserError, match=r"model\.width / model\.heads = 7; choose an even one"):
        make("tener", head_dim=7)


def test_its_term_without_content_is_a_bias_by_distance() -> None:
    """p2p alone: what u and w leave is the same for every query and key at one distance."""
    encoding = make("tener", terms=["p2p"], key_term=False)
    enliven(encoding)
    q, k, v = qkv(6, 6)
    weights = probabilities(q, k, encoding, ready(encoding, range(6), range(6)))
    rows = torch.stack([sinusoid(torch.tensor(j - i), 8, "fairseq") for i in range(6) for j in range(6)])
    bias = (encoding.tener_w @ rows.mT).unflatten(1, (6, 6)).detach()
    torch.testing.assert_close(weights, bias.softmax(-1).expand_as(weights), rtol=1e-4, atol=1e-6)
    out = attend(q, k, v, encoding, ready(encoding, range(6), range(6)))
    torch.testing.assert_close(out, bias.softmax(-1) @ v, rtol=1e-4, atol=1e-5)
