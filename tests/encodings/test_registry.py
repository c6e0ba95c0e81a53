"""What every registered encoding must hold to, whatever its formula."""

import inspect
import subprocess
import sys
import types
import typing
from dataclasses import is_dataclass
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from relformer.attention import attend
from relformer.encodings import Positions, Span
from relformer.errors import OptionError, UserError
from relformer.model import ModelOptions
from relformer.model.slot import build_slot
from relformer.registry import encodings
from tests.encodings.all_oracles import ORACLES
from tests.encodings.calls import CPU, WIDTH, enliven, make, pair_bias, put, qkv, randn, ready
from tests.encodings.oracles import Oracle

NAMES = list(encodings)
ROLES = ("encoder", "decoder", "cross")
SAMPLED = torch.tensor([[0, 2, 3, 7, 8, 30], [1, 4, 5, 6, 21, 22]])
HEAVY = {"lightning", "hydra", "omegaconf", "wandb", "matplotlib", "torchmetrics", "pandas", "scipy", "rich", "yaml"}

WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("alibi", {"max_bias": 0.0}, "max_bias"),
    ("alibi", {"max_bias": -8.0}, "max_bias"),
    ("alibi", {"slopes": [0.5, 0.25]}, "slopes"),
    ("alibi", {"slopes": [0.5, 0.25, -1.0]}, "slopes"),
    ("alibi", {"slopes": [0.5, 0.25, 0.0], "learned": True}, "slopes"),
    ("alibi", {"form": "asymmetric", "biased_heads": 1}, "form"),
    ("alibi", {"biased_heads": 0}, "biased_heads"),
    ("alibi", {"biased_heads": 4}, "biased_heads"),
    ("learned", {"max_length": 0}, "max_length"),
    ("learned", {"init_std": -0.1}, "init_std"),
    ("rope", {"base": 1.0}, "base"),
    ("rope", {"fraction": 0.0}, "fraction"),
    ("rope", {"fraction": 1.5}, "fraction"),
    ("rope", {"fraction": 0.4}, "fraction"),  # 3 of 8 channels
    ("xpos", {"scale_base": 0.0}, "scale_base"),
    ("xpos", {"gamma": 0.0}, "gamma"),
    ("polar", {"base": 1.0}, "base"),
    ("shaw", {"max_distance": -1}, "max_distance"),
    ("shaw", {"keys": False, "values": False}, "keys"),
    ("simple_bias", {"max_length": 0}, "max_length"),
    ("gated_bias", {"max_length": 0}, "max_length"),
    ("gated_bias", {"rank": 0}, "rank"),
    ("gated_bias", {"rank": 4}, "rank"),
    ("absolute_bias", {"max_length": 0}, "max_length"),
    ("dynamic_bias", {"depth": 0}, "depth"),
    ("dynamic_bias", {"hidden": 0}, "hidden"),
    ("fire", {"hidden": 0}, "hidden"),
    ("fire", {"threshold": 0.0}, "threshold"),
    ("fire", {"c": 0.0}, "c"),
    ("rope_gau", {"base": 1.0}, "base"),
    ("rope_gau", {"init_std": 0.0}, "init_std"),
    ("sandwich", {"dim": 7}, "dim"),
    ("sandwich", {"dim": 0}, "dim"),
    ("tupe_a", {"max_length": 0}, "max_length"),
    ("tupe_a", {"init_std": 0.0}, "init_std"),
    ("tupe_a", {"terms": []}, "terms"),
    ("tupe_a", {"terms": ["c2c"]}, "terms"),
    ("tupe_a", {"terms": ["p2p", "p2p"]}, "terms"),
    ("tupe_r", {"terms": ["c2p"]}, "terms"),
    ("tupe_r", {"num_buckets": 7}, "num_buckets"),
    ("window", {"width": -1}, "width"),
    ("sinusoidal", {"base": 1.0}, "base"),
    ("t5", {"num_buckets": 7}, "num_buckets"),
    ("t5", {"num_buckets": 2}, "num_buckets"),
    ("t5", {"max_distance": 8}, "max_distance"),
    ("t5", {"exact_buckets": 0}, "exact_buckets"),
    ("t5", {"exact_buckets": 16}, "exact_buckets"),
    ("t5", {"scale": 0.0}, "scale"),
    ("t5", {"init_std": -1.0}, "init_std"),
    ("transformer_xl", {"clamp_length": 0}, "clamp_length"),
    ("transformer_xl", {"init_std": -1.0}, "init_std"),
    ("transformer_xl", {"relative_dropout": 1.0}, "relative_dropout"),
    *((name, {"terms": []}, "terms") for name in ("transformer_xl", "xlnet", "tener", "deberta")),
    *((name, {"terms": ["c2c", "c2c"]}, "terms") for name in ("transformer_xl", "xlnet", "tener", "deberta")),
    *((name, {"terms": ["c2c", "q2k"]}, "terms") for name in ("transformer_xl", "xlnet", "tener", "deberta")),
    ("tener", {"scale": 0.0}, "scale"),
    ("deberta", {"terms": ["c2c", "p2p"]}, "terms"),
    ("deberta", {"max_distance": 0}, "max_distance"),
    ("deberta", {"position_buckets": 2}, "position_buckets"),
    ("deberta", {"position_buckets": 7}, "position_buckets"),
    ("deberta", {"position_buckets": 16, "max_distance": 9}, "max_distance"),
    ("deberta", {"relative_dropout": -0.1}, "relative_dropout"),
    ("deberta", {"absolute_last": 3}, "absolute_last"),
    ("deberta", {"absolute_last": -1}, "absolute_last"),
    ("deberta", {"max_length": 0}, "max_length"),
    ("deberta", {"init_std": -1.0}, "init_std"),
]


def output(encoding: Any, q: Positions, k: Positions, causal: bool = False, seed: int = 0) -> Tensor:
    """Attention over random inputs at given positions."""
    inputs, features = qkv(6, 6, seed=seed), encoding.features(randn(2, 6, WIDTH, seed=9))
    return attend(*inputs, encoding, ready(encoding, q, k), causal=causal, features=features, backend="dense")


def shifted(positions: Positions, by: int) -> Positions:
    return range(positions.start + by, positions.stop + by) if isinstance(positions, range) else positions + by


@pytest.mark.parametrize("role", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize("positions", [range(6), SAMPLED], ids=["range", "sampled"])
@pytest.mark.parametrize("name", NAMES)
def test_shifting_all_positions_leaves_attention_alone(name: str, positions: Positions, role: str) -> None:
    if not ORACLES.get(name, Oracle()).shift_invariant:
        pytest.skip("reads positions themselves, not distances")
    encoding = make(name, role)
    enliven(encoding)
    here = output(encoding, positions, positions, causal=role == "decoder")
    there = output(encoding, shifted(positions, 37), shifted(positions, 37), causal=role == "decoder")
    torch.testing.assert_close(there, here, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [n for n in NAMES if not encodings[n].cls.overrides("embed") and n != "none"])
def test_shifting_only_the_queries_changes_attention(name: str) -> None:
    encoding = make(name)
    enliven(encoding)
    moved = output(encoding, range(20, 26), range(6)) - output(encoding, range(6), range(6))
    assert moved.abs().max() > 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_an_encoder_knows_its_mirror_image_unless_the_encoding_is_symmetric(name: str) -> None:
    encoding = make(name)
    enliven(encoding)
    x = encoding.embed(randn(1, 6, WIDTH), torch.ones(1, 6, dtype=torch.long), range(6))
    mirrored = encoding.embed(randn(1, 6, WIDTH).flip(1), torch.ones(1, 6, dtype=torch.long), range(6))
    span = ready(encoding, range(6), range(6))

    def attended(states: Tensor) -> Tensor:
        heads, features = states.unflatten(-1, (3, -1)).transpose(1, 2), encoding.features(states)
        return attend(heads, heads.roll(1, -1), heads, encoding, span, features=features, backend="dense")

    gap = (attended(mirrored).flip(2) - attended(x)).abs().max()
    blind = ORACLES.get(name, Oracle()).mirror_blind
    assert (gap < 1e-5) == blind, f"{name}: mirror images differ by {float(gap):.2g}; declared mirror_blind={blind}"


def test_gated_bias_with_an_open_gate_is_simple_bias() -> None:
    simple, gated = make("simple_bias", max_length=5), make("gated_bias", max_length=5)
    enliven(simple)
    put(gated, distance_weight=simple.distance_weight, gate=torch.full((3,), 40.0), log_scale=torch.zeros(3))
    torch.testing.assert_close(output(gated, range(6), range(6)), output(simple, range(6), range(6)))


@pytest.mark.parametrize("name", ["transformer_xl", "shaw", "simple_bias", "gated_bias", "t5"])
@torch.no_grad()
def test_zero_parameters_leave_plain_attention(name: str) -> None:
    encoding = make(name)
    before = output(encoding, range(6), range(6))
    for p in encoding.parameters():
        p.zero_()
    plain = output(make("none"), range(6), range(6))
    torch.testing.assert_close(output(encoding, range(6), range(6)), plain)
    assert not torch.allclose(before, plain)


@pytest.mark.parametrize("role", ["encoder", "decoder"])
@pytest.mark.parametrize("name", NAMES)
def test_constants_stay_exact_in_bfloat16_and_out_of_the_checkpoint(name: str, role: str) -> None:
    encoding = make(name, role)
    before = {key: b.clone() for key, b in encoding.named_buffers()}
    encoding.to(torch.bfloat16)
    for key, buffer in encoding.named_buffers():
        assert buffer.dtype == before[key].dtype != torch.bfloat16
        assert torch.equal(buffer, before[key])
    assert all(p.dtype == torch.bfloat16 for p in encoding.parameters())
    assert set(encoding.state_dict()) == {key for key, _ in encoding.named_parameters()}


def test_some_encodings_have_constants() -> None:
    """Guards the test above."""
    assert [key for key, _ in make("alibi").named_buffers()] == ["log_slopes"]
    assert [key for key, _ in make("t5").named_buffers()] == ["bucket_of"]


def tensors(value: Any) -> list[Tensor]:
    """All tensors in what `prepare` returned."""
    if isinstance(value, Tensor):
        return [value]
    return [t for part in value for t in tensors(part)] if isinstance(value, (tuple, list)) else []


@pytest.mark.parametrize("positions", [range(4090, 4096), SAMPLED + 4000], ids=["range", "sampled"])
@pytest.mark.parametrize("name", NAMES)
def test_formulas_run_in_float32_under_autocast(name: str, positions: Positions) -> None:
    encoding = make(name, **({"max_length": 5000} if name == "learned" else {}))
    positions = shifted(positions, -max(0, 4096 - (encoding.max_positions() or 4096)))
    enliven(encoding)
    call = Span.between(positions, positions, 5000, CPU)
    x, tokens = randn(2, 6, WIDTH), torch.ones(2, 6, dtype=torch.long)
    exact, embedded = encoding.ready(call), encoding.embed(x, tokens, positions)
    with torch.autocast("cpu", torch.bfloat16):
        span, input_under = encoding.ready(call), encoding.embed(x, tokens, positions)
    pairs = list(zip(tensors((span.table, span.prepared)), tensors((exact.table, exact.prepared)), strict=True))
    for got, wanted in [*pairs, (input_under, embedded)]:
        assert got.dtype != torch.bfloat16
        assert torch.equal(got, wanted)


def test_importing_encodings_imports_nothing_heavy() -> None:
    program = "import relformer.encodings, sys; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    modules = done.stdout.split()
    assert "torch" in modules
    assert not HEAVY & {m.split(".")[0] for m in modules}
    parts = {m.split(".")[1] for m in modules if m.startswith("relformer.")}
    assert parts <= {"encodings", "registry", "errors", "seeding"}, parts


@pytest.mark.parametrize(("name", "options", "option"), WRONG, ids=str)
def test_a_wrong_value_is_refused_with_its_path_and_a_remedy(name: str, options: dict[str, Any], option: str) -> None:
    role: Any = next(r for r in ROLES if r not in encodings[name].cls.refuses)  # type: ignore[attr-defined]
    with pytest.raises(OptionError) as caught:
        build_slot({"name": name} | options, role, "decoder_encoding", ModelOptions(width=24, heads=3))
    assert str(caught.value).startswith(f"decoder_encoding.{option}={options[option]!r} ")
    assert any(word in caught.value.rule for word in ("must", "set ", "choose", "in pairs")), caught.value.rule


@pytest.mark.parametrize("name", NAMES)
def test_a_value_outside_the_choices_is_refused(name: str) -> None:
    for option, known in encodings[name].options().items():
        if typing.get_origin(known.type) is Literal:
            with pytest.raises(OptionError, match=str(known.default)):
                make(name, **{option: "nonsense"})
        for inner, hint in typing.get_type_hints(known.type).items() if is_dataclass(known.type) else ():
            if typing.get_origin(hint) is Literal:
                with pytest.raises(OptionError, match=rf"^{option}\.{inner}='nonsense' is not one of "):
                    make(name, **{option: {inner: "nonsense"}})


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_option_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=f"nonsense_option=1 is not an option of {name}"):
        make(name, nonsense_option=1)


@pytest.mark.parametrize("name", ["alibi", "t5"])
def test_a_misspelt_name_gets_a_suggestion(name: str) -> None:
    with pytest.raises(UserError, match=f"did you mean '{name}'"):
        encodings[name + "s"]


def plain_type(hint: Any) -> bool:
    """Types a config schema can state; a dataclass of them is a nested schema."""
    if is_dataclass(hint):
        return all(plain_type(inner) for inner in typing.get_type_hints(hint).values())
    if hint in (int, float, bool, str, type(None), list[Any]):
        return True
    origin = typing.get_origin(hint)
    if origin is Literal:
        return True
    return origin in (types.UnionType, typing.Union, list) and all(plain_type(a) for a in typing.get_args(hint))


@pytest.mark.parametrize("name", NAMES)
def test_options_are_typed_keywords_with_defaults(name: str) -> None:
    entry = encodings[name]
    for parameter in inspect.signature(entry.cls.__init__).parameters.values():
        assert parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL), parameter
        if parameter.kind is parameter.KEYWORD_ONLY:
            assert parameter.default is not parameter.empty, parameter
            assert plain_type(entry.options()[parameter.name].type), parameter


@pytest.mark.parametrize("name", [n for n in NAMES if encodings[n].cls.overrides("table")])
def test_the_same_table_serves_ranges_and_listed_positions(name: str) -> None:
    encoding = make(name)
    enliven(encoding)
    listed = pair_bias(encoding, torch.arange(3, 8)[None], torch.arange(6)[None])
    torch.testing.assert_close(pair_bias(encoding, range(3, 8), range(6)), listed)
