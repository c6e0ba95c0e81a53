"""ALiBi against the reference packages, and the shape of its slopes."""

import pytest
import torch

from relformer.encodings import draw
from relformer.encodings.alibi import published_slopes
from tests.encodings.calls import fixture, make, pair_bias

TWELVE = [2 ** (-(h + 1)) for h in range(8)] + [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]


@pytest.mark.parametrize("package", ["bloom", "mpt", "x_transformers"])
def test_slopes_of_the_packages(package: str) -> None:
    table = fixture("alibi_slope_table")[package]
    for heads in range(1, 33):
        ours = torch.tensor(published_slopes(heads, 8.0))
        torch.testing.assert_close(ours, table[heads - 1, :heads], rtol=1e-6, atol=0)
    assert not table[:, 0].isnan().any()


def test_slopes_of_twelve_heads_are_in_the_papers_order() -> None:
    assert published_slopes(12, 8.0) == pytest.approx(TWELVE)
    next_key = pair_bias(make("alibi", heads=12), range(2), range(2))[0, :, 0, 1]
    torch.testing.assert_close(next_key, -torch.tensor(TWELVE))


def test_symmetric_bias_of_x_transformers() -> None:
    case = fixture("alibi_bias")
    encoding = make("alibi", heads=4)
    torch.testing.assert_close(pair_bias(encoding, range(5), range(5))[0], case["sym"], rtol=0, atol=2e-5)
    last_two = pair_bias(encoding, range(3, 5), range(5))[0]
    torch.testing.assert_close(last_two, case["sym_cached"], rtol=0, atol=2e-5)


def test_key_only_form_of_bloom_is_the_same_after_the_softmax() -> None:
    """Positions come from the mask there; the last query sees every real key."""
    case = fixture("alibi_bias")
    mask = case["bloom_mask"]
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    ours = pair_bias(make("alibi", heads=4), positions[:, -1:], positions)[:, :, 0]
    for row, real in enumerate(mask.bool()):
        wanted = case["bloom"][row, :, 0][:, real].softmax(-1)
        torch.testing.assert_close(ours[row][:, real].softmax(-1), wanted, rtol=0, atol=2e-5)


def test_key_only_form_of_mpt_is_the_bias_of_the_last_query() -> None:
    ours = pair_bias(make("alibi", heads=4), range(4, 5), range(5))[0]
    torch.testing.assert_close(ours, fixture("alibi_bias")["mpt"], rtol=0, atol=2e-5)


def test_bias_is_zero_at_home_symmetric_and_falls() -> None:
    bias = pair_bias(make("alibi", heads=8), range(30), range(30))[0]
    assert (bias.diagonal(dim1=1, dim2=2) == 0).all()
    assert torch.equal(bias, bias.mT)
    assert (bias[:, 29].diff() > 0).all()  # towards the query
    assert (bias[1:, 9, 3] > bias[:-1, 9, 3]).all()  # slopes fall from head to head


@pytest.mark.parametrize("distance", [1, 50, 100_000])
def test_extends_to_any_distance(distance: int) -> None:
    bias = pair_bias(make("alibi", heads=8), range(distance, distance + 1), range(1))
    torch.testing.assert_close(bias[0, 0, 0, 0], torch.tensor(-0.5 * distance))


def test_max_bias_sets_the_last_slope() -> None:
    assert published_slopes(4, 16.0)[-1] == 2**-16
    assert make("alibi", max_bias=16.0).log_slopes[1] < make("alibi").log_slopes[1]


def test_learned_slopes_start_at_the_papers_and_stay_positive() -> None:
    learned, fixed = make("alibi", heads=12, learned=True), make("alibi", heads=12)
    assert [name for name, _ in learned.named_parameters()] == ["log_slopes"]
    assert list(fixed.parameters()) == []
    torch.testing.assert_close(pair_bias(learned, range(5), range(5)), pair_bias(fixed, range(5), range(5)))
    with torch.no_grad():
        learned.log_slopes.sub_(50.0)
    assert (pair_bias(learned, range(1), range(1, 2)) < 0).all()


def test_learned_slopes_can_be_drawn_again() -> None:
    encoding = make("alibi", learned=True)
    start = encoding.log_slopes.detach().clone()
    with torch.no_grad():
        encoding.log_slopes.add_(1.0)
    draw(encoding, seed=0)
    assert torch.equal(encoding.log_slopes.detach(), start)


def test_given_slopes_are_taken_as_they_are() -> None:
    bias = pair_bias(make("alibi", slopes=[0.5, 0.0, 3.0]), range(3), range(1))[0, :, 2, 0]
    assert bias.tolist() == [-1.0, 0.0, -6.0]


def test_heads_beyond_the_biased_ones_have_no_bias() -> None:
    """x-transformers' rule: the slopes are those of so many heads."""
    some, four = make("alibi", heads=6, biased_heads=4), make("alibi", heads=4)
    bias = pair_bias(some, range(5), range(5))
    assert torch.equal(bias[:, :4], pair_bias(four, range(5), range(5)))
    assert (bias[:, 4:] == 0).all()


def test_asymmetric_slopes_for_the_future_are_those_of_the_past_in_reverse_order() -> None:
    bias = pair_bias(make("alibi", heads=4, form="asymmetric"), range(9), range(9))
    past = pair_bias(make("alibi", heads=4), range(9), range(9))
    assert torch.equal(bias.tril(), past.tril())
    assert torch.equal(bias.triu(), past.flip(1).triu())


def test_learned_asymmetric_slopes_start_symmetric_and_part() -> None:
    encoding = make("alibi", form="asymmetric", learned=True)
    symmetric = pair_bias(make("alibi"), range(5), range(5))
    torch.testing.assert_close(pair_bias(encoding, range(5), range(5)), symmetric)
    pair_bias(encoding, range(5), range(5)).tril().sum().backward()
    assert encoding.log_slopes.grad is not None
    assert (encoding.log_slopes.grad != 0).all()
    assert encoding.log_future_slopes.grad is None or (encoding.log_future_slopes.grad == 0).all()


@pytest.mark.parametrize("learned", [False, True])
def test_a_decoder_has_no_future_to_set_apart(learned: bool) -> None:
    plain, formed = (make("alibi", "decoder", learned=learned, form=form) for form in ("symmetric", "asymmetric"))
    assert torch.equal(pair_bias(formed, range(5), range(5)), pair_bias(plain, range(5), range(5)))
    assert [n for n, _ in formed.named_parameters()] == [n for n, _ in plain.named_parameters()]
