"""RoPE's scalings: another implementation's frequencies, what each reduces to, and models that plan their length."""

from typing import Any

import pytest
import torch
from torch import Tensor

from relformer.encodings import PositionalEncoding
from relformer.encodings.rope_scaling import OPTIONS, RopeScaling, checked, scaled
from relformer.errors import OptionError
from relformer.registry import encodings
from tests.encodings.calls import fixture, make, qkv, randn, ready
from tests.model.models import batch, build, check_cache, check_causal, check_padding, stepwise

LISTS = {"short_factors": [1.0, 1.1, 1.2, 1.3], "long_factors": [1.0, 2.0, 3.0, 4.0]}
SCALINGS: dict[str, dict[str, Any]] = {
    "linear": {"factor": 4.0},
    "ntk": {"factor": 4.0},
    "dynamic_ntk": {"original_length": 8},
    "yarn": {"factor": 4.0, "original_length": 64},
    "llama3": {"original_length": 64},
    "longrope": {"factor": 4.0, "original_length": 12, **LISTS},
}
LENGTHS = ("dynamic_ntk", "longrope")


def rope(kind: str, head_dim: int = 8, **options: Any) -> PositionalEncoding:
    return make("rope", head_dim=head_dim, scaling={"type": kind} | SCALINGS.get(kind, {}) | options)


def turned(encoding: PositionalEncoding, x: Tensor, length: int = 1000) -> Tensor:
    """Queries at positions 3 and on."""
    return encoding.query(x, ready(encoding, range(3, 3 + x.shape[-2]), range(1), length))


@pytest.mark.parametrize(
    ("case", "length", "options"),
    [
        ("linear", 64, {"type": "linear", "factor": 4.0}),
        ("dynamic_64", 64, {"type": "dynamic_ntk", "original_length": 64}),
        ("dynamic_100", 100, {"type": "dynamic_ntk", "original_length": 64, "factor": 2.0}),
        ("dynamic_256", 256, {"type": "dynamic_ntk", "original_length": 64, "factor": 2.0}),
        ("yarn", 64, {"type": "yarn", "factor": 8.0, "original_length": 64}),
        ("yarn_nontruncated", 64, {"type": "yarn", "factor": 8.0, "original_length": 64, "truncate": False}),
        ("yarn_4096", 64, {"type": "yarn", "factor": 32.0, "original_length": 4096}),
        ("llama3", 64, {"type": "llama3", "original_length": 64}),
        ("longrope_short", 64, {"type": "longrope", "factor": 4.0, "original_length": 64}),
        ("longrope_long", 65, {"type": "longrope", "factor": 4.0, "original_length": 64}),
    ],
)
def test_frequencies_and_magnitudes_of_transformers(case: str, length: int, options: dict[str, Any]) -> None:
    known = fixture("rope_scaling")
    if options["type"] == "longrope":
        options |= {f"{which}_factors": known[f"{which}_factor"].tolist() for which in ("short", "long")}
    inverse, magnitude = scaled(16, 10000.0, checked(RopeScaling(**options), 16), length)
    torch.testing.assert_close(inverse.float(), known[case], rtol=1e-6, atol=0)
    assert magnitude == pytest.approx(float(known[f"{case}.attention"]), rel=1e-6)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("linear", {"factor": 1.0}),
        ("ntk", {"factor": 1.0}),
        ("dynamic_ntk", {"original_length": 1000}),
        ("dynamic_ntk", {"original_length": 5000, "factor": 8.0}),
        ("yarn", {"factor": 1.0}),
        ("llama3", {"factor": 1.0}),
        ("longrope", {"factor": 1.0, "original_length": 2000, "short_factors": [1.0] * 4}),
    ],
)
def test_a_scaling_by_nothing_is_rope(kind: str, options: dict[str, Any]) -> None:
    x = randn(2, 3, 50, 8)
    torch.testing.assert_close(turned(rope(kind, **options), x), turned(make("rope"), x))


@pytest.mark.parametrize("kind", SCALINGS)
def test_lengths_change_by_the_magnitude_alone_and_products_follow_the_distance(kind: str) -> None:
    encoding, (q, k, _) = rope(kind), qkv(1, 1)
    _, magnitude = scaled(8, 10000.0, checked(RopeScaling(kind, **SCALINGS[kind]), 8), 1000)
    torch.testing.assert_close(turned(encoding, q).norm(dim=-1), q.norm(dim=-1) * magnitude)
    assert (magnitude > 1) == (kind in ("yarn", "longrope"))

    def product(i: int, j: int) -> Tensor:
        span = ready(encoding, range(i, i + 1), range(j, j + 1))
        return encoding.query(q, span) @ encoding.key(k, span).mT

    torch.testing.assert_close(product(5, 2), product(40, 37), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(product(5, 2), product(2, 5), atol=1e-2)


@pytest.mark.parametrize("kind", SCALINGS)
def test_no_pair_turns_faster_than_ropes(kind: str) -> None:
    inverse, _ = scaled(8, 10000.0, checked(RopeScaling(kind, **SCALINGS[kind]), 8), 1000)
    plain, _ = scaled(8, 10000.0, RopeScaling(), 0)
    assert (inverse <= plain).all()
    assert (inverse[-1] < plain[-1] / 2).all()
    assert (inverse.diff() < 0).all()
    if kind != "linear":
        assert inverse[0] == plain[0]


def test_yarn_sharpens_by_the_square_of_its_magnitude() -> None:
    q, k, _ = qkv(4, 4)
    plain, sharp = rope("yarn", attention_factor=1.0), rope("yarn", attention_factor=2.0)
    products = []
    for encoding in (plain, sharp):
        span = ready(encoding, range(4), range(4))
        products.append(encoding.query(q, span) @ encoding.key(k, span).mT)
    torch.testing.assert_close(products[1], 4 * products[0])


@pytest.mark.parametrize("kind", ["none", *SCALINGS])
def test_only_two_scalings_follow_the_planned_length(kind: str) -> None:
    encoding, x = rope(kind), randn(2, 3, 6, 8)
    same = torch.equal(turned(encoding, x, length=9), turned(encoding, x, length=30))
    assert encoding.length_dependent == (not same) == (kind in LENGTHS)


@pytest.mark.parametrize(
    ("kind", "options", "option"),
    [
        ("linear", {"factor": None}, "factor"),
        ("linear", {"factor": 0.5}, "factor"),
        ("yarn", {"factor": 0.0}, "factor"),
        ("dynamic_ntk", {"original_length": None}, "original_length"),
        ("llama3", {"original_length": 1}, "original_length"),
        ("yarn", {"attention_factor": 0.0}, "attention_factor"),
        ("yarn", {"beta_fast": 1.0, "beta_slow": 32.0}, "beta_fast"),
        ("yarn", {"beta_slow": 0.0}, "beta_fast"),
        ("yarn", {"mscale": -1.0}, "mscale"),
        ("yarn", {"mscale_all_dim": -1.0}, "mscale_all_dim"),
        ("llama3", {"low_freq_factor": 4.0}, "high_freq_factor"),
        ("longrope", {"short_factors": None}, "short_factors"),
        ("longrope", {"long_factors": [1.0, 2.0]}, "long_factors"),
        ("longrope", {"long_factors": [1.0, 2.0, 3.0, 0.0]}, "long_factors"),
        ("none", {"factor": 2.0}, "factor"),
        ("linear", {"beta_fast": 16.0}, "beta_fast"),
        ("ntk", {"long_factors": [1.0]}, "long_factors"),
    ],
)
def test_wrong_options_are_refused_with_their_path_and_a_remedy(
    kind: str, options: dict[str, Any], option: str
) -> None:
    with pytest.raises(OptionError) as caught:
        rope(kind, **options)
    fault = caught.value.at("encoding")
    value = (SCALINGS.get(kind, {}) | {"beta_fast": 32.0, "high_freq_factor": 4.0} | options)[option]
    assert str(fault).startswith(f"encoding.scaling.{option}={value!r} ")
    assert "must" in fault.rule or f"set scaling.type={next(t for t in OPTIONS if option in OPTIONS[t])}" in fault.rule


@pytest.mark.parametrize("kind", ["ntk", "dynamic_ntk"])
def test_one_frequency_cannot_be_stretched(kind: str) -> None:
    with pytest.raises(OptionError, match=r"^scaling.type='\w+' can't slow .*; set scaling.type=linear$"):
        rope(kind, head_dim=2)


@pytest.mark.parametrize("place", ["rope@cross", "rope_keynorm", "rope_bias"])
@pytest.mark.parametrize("kind", SCALINGS)
def test_models_with_a_scaling_decode_from_the_cache_and_see_no_padding_and_no_future(kind: str, place: str) -> None:
    """The cache at one planned length; padding with the length held where the formula has it."""
    scaling = {"type": kind} | SCALINGS[kind]
    check_cache(build(place, scaling=scaling))
    check_causal(build(place, scaling=scaling))
    check_padding(build(place, scaling=scaling))


@pytest.mark.parametrize("backend", ["dense", "sdpa"])
@pytest.mark.parametrize("kind", SCALINGS)
@torch.no_grad()
def test_backends_agree_under_a_scaling(kind: str, backend: str) -> None:
    scaling = {"type": kind} | SCALINGS[kind]
    auto = build("rope@cross", scaling=scaling)(*batch())
    torch.testing.assert_close(build("rope@cross", backend=backend, scaling=scaling)(*batch()), auto)


@pytest.mark.parametrize("kind", ["linear", *LENGTHS])
@torch.no_grad()
def test_the_limit_of_a_generation_counts_where_the_length_does(kind: str) -> None:
    """Guards the tests above, and says what length dependence means: 10 tokens planned as 24 are other numbers."""
    model, (source, target) = build("rope@cross", scaling={"type": kind} | SCALINGS[kind]), batch()
    short, long = (model.step(target, model.start(source, planned)) for planned in (10, 24))
    assert torch.allclose(short, long, atol=1e-5) == (kind not in LENGTHS)
    torch.testing.assert_close(stepwise(model, source, target, [3, 7]), short, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("targets", "length"), [(4, 9), (10, 10)])
@torch.no_grad()
def test_queries_and_keys_of_cross_attention_are_planned_for_one_length(targets: int, length: int) -> None:
    """The longer of source (9) and target: with two lengths they would turn by two bases."""
    model, (source, target) = build("rope@cross", scaling={"type": "dynamic_ntk"} | SCALINGS["dynamic_ntk"]), batch()
    slot, planned = model.slots["cross"], []
    place = slot.place

    def recorded(*call: Any) -> Any:
        planned.append(call[3])
        return place(*call)

    slot.place = recorded  # type: ignore[method-assign]
    stepwise(model, source, target[:, :targets], [1] * targets)
    assert planned == [length] * (targets + 1)


def test_the_scaling_is_the_same_option_of_all_presets() -> None:
    for name in ("rope", "rope_keynorm", "rope_bias"):
        assert encodings[name].options()["scaling"].type is RopeScaling
    assert "scaling" not in encodings["xpos"].options()
