"""T5's bias against the reference package, and what is peculiar to its buckets."""

from collections import Counter

import pytest
import torch

from relformer.attention import attend
from tests.encodings.calls import enliven, fixture, joined, linear, make, pair_bias, probabilities, project, put, ready

TABLE = fixture("t5_bucket_table")


@pytest.mark.parametrize("setting", [key for key in TABLE if key != "rel"])
def test_buckets_of_the_reference(setting: str) -> None:
    kind, buckets, most = setting.split("_")
    role = "encoder" if kind == "b" else "decoder"
    encoding = make("t5", role, num_buckets=int(buckets), max_distance=int(most))
    assert torch.equal(encoding.bucket(-TABLE["rel"]), TABLE[setting])


def test_cross_attention_has_both_directions() -> None:
    assert torch.equal(make("t5", "cross").bucket(-TABLE["rel"]), TABLE["b_32_128"])


@pytest.mark.parametrize(
    ("array", "role", "weight", "queries", "keys"),
    [
        ("enc", "encoder", "weight_enc", range(7), range(9)),
        ("dec", "decoder", "weight_dec", range(6), range(6)),
        ("dec_step", "decoder", "weight_dec", range(8, 9), range(9)),
    ],
)
def test_bias_of_the_reference(array: str, role: str, weight: str, queries: range, keys: range) -> None:
    case, encoding = fixture("t5_bias"), make("t5", role)
    put(encoding, bucket_weight=case[weight])
    torch.testing.assert_close(pair_bias(encoding, queries, keys)[0], case[array], rtol=0, atol=2e-5)


def test_attention_of_the_reference() -> None:
    """Unscaled q·k: probabilities, and outputs after the output projection."""
    case = fixture("t5_attention")
    encoding = make("t5", heads=2, head_dim=8, scale=1.0)
    put(encoding, bucket_weight=case["param.relative_attention_bias.weight"])
    q, k, v = (project(case["x"], case, layer, 2) for layer in "qkv")
    span = ready(encoding, range(6), range(6))
    torch.testing.assert_close(probabilities(q, k, encoding, span), case["probs"], rtol=0, atol=2e-5)
    out = attend(q, k, v, encoding, span, backend="dense")
    torch.testing.assert_close(linear(joined(out), case, "o"), case["y"], rtol=0, atol=1e-4)


def test_scale_is_that_of_the_head_unless_set() -> None:
    assert make("t5").scale(16) == 0.25
    assert make("t5", scale=1.0).scale(16) == 1.0


@pytest.mark.parametrize(("options", "std"), [({}, 0.02), ({"init_std": None}, 64**-0.5), ({"init_std": 0.5}, 0.5)])
def test_the_table_starts_as_told(options: dict[str, float | None], std: float) -> None:
    table = make("t5", heads=8, head_dim=8, num_buckets=400, max_distance=2000, **options).bucket_weight.detach()
    assert float(table.std()) == pytest.approx(std, rel=0.05)


@pytest.mark.parametrize("buckets", [8, 32])
def test_one_row_of_an_encoder_is_never_read(buckets: int) -> None:
    encoding = make("t5", num_buckets=buckets, max_distance=128)
    pair_bias(encoding, range(200), range(200)).square().sum().backward()
    grad = encoding.bucket_weight.grad
    assert grad is not None
    unread = (grad == 0).all(1).nonzero().flatten().tolist()
    assert unread == [buckets // 2]


def test_every_row_of_a_decoder_is_read() -> None:
    encoding = make("t5", "decoder")
    pair_bias(encoding, range(150), range(150)).square().sum().backward()
    assert encoding.bucket_weight.grad is not None
    assert (encoding.bucket_weight.grad != 0).any(1).all()


def test_half_of_the_decoders_buckets_hold_one_distance_each() -> None:
    sizes = Counter(make("t5", "decoder").bucket(torch.arange(113)).tolist())
    assert [sizes[b] for b in range(17)] == [1] * 16 + [3]
    assert make("t5", "decoder").bucket(torch.tensor([112, 113, 128, 10_000])).tolist() == [30, 31, 31, 31]


def test_distances_beyond_the_last_bucket_read_its_row() -> None:
    encoding = make("t5", num_buckets=8, max_distance=20)
    enliven(encoding)
    bias = pair_bias(encoding, range(1000), range(1000))[0]
    assert torch.equal(bias[:, 999, 0], bias[:, 20, 0])
    assert torch.equal(bias[:, 0, 999], bias[:, 0, 20])
    assert not torch.equal(bias[:, 0, 999], bias[:, 999, 0])


def test_half_of_the_buckets_are_exact_unless_set() -> None:
    distances = torch.arange(-300, 300)
    assert torch.equal(make("t5", exact_buckets=8).bucket(distances), make("t5").bucket(distances))
    few = make("t5", "decoder", exact_buckets=3).bucket(torch.arange(129))
    assert few[:3].tolist() == [0, 1, 2]
    assert few[3:].unique_consecutive().numel() <= 29
    assert few.max() == 31


def test_a_bucket_a_distance_but_for_the_last() -> None:
    rows = make("t5", "decoder", num_buckets=8, exact_buckets=7).bucket(torch.arange(130))
    assert rows[:8].tolist() == list(range(8))
    assert (rows[8:] == 7).all()


def test_last_bucket_of_the_other_logarithm_begins_at_the_greatest_distance() -> None:
    """Sixteen buckets a direction, eight of them exact: 91 in T5, 128 there."""
    distances = torch.arange(300)
    for formula, begins in (("original", 91), ("article", 128)):
        rows = make("t5", log_buckets=formula).bucket(distances)
        assert (rows == 15).nonzero()[0].item() == begins
        assert torch.equal(rows[:8], distances[:8])
        assert (rows.diff() >= 0).all()


@pytest.mark.parametrize("exact", range(1, 15))
@pytest.mark.parametrize("buckets", ["original", "article"])
def test_the_last_bucket_is_read(buckets: str, exact: int) -> None:
    """Whatever rounding makes of the logarithm at `max_distance`."""
    encoding = make("t5", "encoder", log_buckets=buckets, exact_buckets=exact, max_distance=128)
    found = encoding.bucket(torch.arange(200))  # type: ignore[operator]
    assert found.max() == 15 and (found[128:] == 15).all() and (found.diff() >= 0).all()
