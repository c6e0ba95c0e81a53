"""The fixed sinusoid against three packages, and beyond any length."""

import pytest
import torch

from relformer.encodings.sinusoid import sinusoid
from relformer.errors import UserError
from tests.encodings.calls import fixture, make, randn

TOKENS = torch.ones(1, 6, dtype=torch.long)


@pytest.mark.parametrize("layout", ["interleaved", "concat"])
def test_rows_of_the_packages(layout: str) -> None:
    table = fixture("sinusoids")[layout]
    encoding = make("sinusoidal", heads=1, head_dim=10, layout=layout)
    out = encoding.embed(torch.zeros(1, 30, 10), torch.ones(1, 30, dtype=torch.long), range(30))
    torch.testing.assert_close(out[0], table, rtol=0, atol=2e-5)


def test_rows_of_fairseq_but_for_the_padding_row() -> None:
    """Its row 1 is padding and zero; its first token stands in row 2."""
    table, ours = fixture("sinusoids")["fairseq"], sinusoid(torch.arange(30), 10, "fairseq")
    real = torch.arange(30) != 1
    torch.testing.assert_close(ours[real], table[real], rtol=0, atol=2e-5)
    assert (table[1] == 0).all()
    assert (ours[1] != 0).all()


def test_layouts_are_different() -> None:
    rows = [sinusoid(torch.arange(5), 10, layout) for layout in ("interleaved", "concat", "fairseq")]
    assert not any(torch.allclose(rows[a], rows[b]) for a, b in ((0, 1), (0, 2), (1, 2)))


@pytest.mark.parametrize("first", [0, 5000, 100_000])
def test_extends_to_any_position(first: int) -> None:
    x = randn(1, 6, 24)
    out = make("sinusoidal").embed(x, TOKENS, range(first, first + 6))
    exact = torch.arange(first, first + 6, dtype=torch.float64)
    torch.testing.assert_close((out - x)[0, :, 0].double(), exact.sin(), rtol=0, atol=1e-5)
    torch.testing.assert_close((out - x)[0, :, 1].double(), exact.cos(), rtol=0, atol=1e-5)


def test_products_of_rows_depend_on_the_distance_and_not_on_its_sign() -> None:
    rows = sinusoid(torch.arange(40), 24)
    products = rows @ rows.T
    torch.testing.assert_close(products.diagonal(3), products.diagonal(3)[:1].expand(37), rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(products, products.T)


def test_an_odd_width_is_refused() -> None:
    with pytest.raises(UserError, match=r"model\.width=7\b.*choose an even"):
        make("sinusoidal", heads=1, head_dim=7)


def test_the_sum_keeps_the_dtype() -> None:
    assert make("sinusoidal").embed(randn(1, 6, 24).bfloat16(), TOKENS, range(6)).dtype == torch.bfloat16
