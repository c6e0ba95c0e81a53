"""`import relformer`: light, complete, typed; its functions against the models' own code."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import relformer
from relformer import UserError
from relformer.attention import attend as inner
from relformer.encodings import PositionalEncoding
from relformer.registry import encodings
from tests.cli.runs import ROOT, environment
from tests.encodings.calls import HEAD_DIM, HEADS, qkv, ready
from tests.model.models import SMALL

HEAVY = ("torch", "lightning", "hydra", "omegaconf", "wandb", "numpy", "matplotlib", "tokenizers")


def python(code: str) -> str:
    command = [sys.executable, "-c", code]
    env = environment(PYTHONPATH=str(ROOT))
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout


def test_importing_loads_nothing() -> None:
    code = f"import sys, relformer; print([name for name in {HEAVY} if name in sys.modules])"
    assert python(code).strip() == "[]"


def test_importing_takes_less_than_torch() -> None:
    def seconds(module: str) -> float:
        began = time.perf_counter()
        python(f"import {module}")
        return time.perf_counter() - began

    assert min(seconds("relformer") for _ in range(3)) < min(seconds("torch") for _ in range(2))


def test_encodings_and_models_need_no_lightning() -> None:
    code = "import sys, relformer; relformer.build_model('tiny', 'alibi', vocabulary=9)"
    assert python(f"{code}; print('lightning' in sys.modules, 'hydra' in sys.modules)").split() == ["False", "False"]


def test_every_name_is_there() -> None:
    assert set(relformer.__all__) <= set(dir(relformer))
    assert python("from relformer import *; print(build_encoding.__name__, load.__name__)").split() == [
        "build_encoding",
        "load",
    ]
    with pytest.raises(AttributeError, match="no attribute 'biuld_model'"):
        relformer.biuld_model  # type: ignore[attr-defined]  # noqa: B018


def test_the_types_are_seen(tmp_path: Path) -> None:
    assert (ROOT / "relformer" / "py.typed").exists()
    for name in relformer.__all__:
        assert getattr(relformer, name).__doc__


def made(name: str, **options: Any) -> PositionalEncoding:
    role: Any = next(r for r in ("encoder", "decoder", "cross") if r not in encodings[name].cls.refuses)  # type: ignore[attr-defined]
    vocabulary = 11 if name == "complex" else None
    return relformer.build_encoding(
        name, heads=HEADS, head_dim=HEAD_DIM, role=role, vocabulary=vocabulary, **SMALL.get(name, {}), **options
    ).eval()


@pytest.mark.parametrize("name", list(encodings))
def test_attention_is_that_of_the_models(name: str) -> None:
    encoding = made(name)
    q, k, v = qkv(6, 6)
    features = encoding.features(torch.randn(2, 6, HEADS * HEAD_DIM))
    padding = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    positions = encoding.positions(6, 2, torch.device("cpu"))
    expected = inner(
        q, k, v, encoding, ready(encoding, positions, positions), padding=padding, causal=True, features=features
    )
    given = {"q_positions": positions, "k_positions": positions} if encoding.acts("positions") else {}
    found = relformer.attend(q, k, v, encoding, causal=True, padding=padding, features=features, **given)
    torch.testing.assert_close(found, expected)


def test_a_decode_step_says_where_its_query_stands() -> None:
    encoding = made("t5")
    q, k, v = qkv(6, 6)
    whole = relformer.attend(q, k, v, encoding, causal=True)
    step = relformer.attend(q[:, :, 4:5], k[:, :, :5], v[:, :, :5], encoding, causal=True, q_positions=range(4, 5))
    torch.testing.assert_close(step, whole[:, :, 4:5])
    with pytest.raises(UserError, match=r"1 queries and 5 keys: say where.*q_positions=range\(4, 5\)"):
        relformer.attend(q[:, :, 4:5], k[:, :, :5], v[:, :, :5], encoding)


def test_one_span_serves_all_layers() -> None:
    encoding = made("rope")
    span = relformer.make_span(encoding, range(6))
    q, k, v = qkv(6, 6)
    torch.testing.assert_close(
        relformer.attend(q, k, v, encoding, span=span), relformer.attend(q, k, v, encoding, backend="dense")
    )


def test_what_acts_before_the_projections_asks_for_a_span() -> None:
    encoding = made("learned", inject="qk")
    q, k, v = qkv(6, 6)
    with pytest.raises(UserError, match=r"make its span first.*encoding\.query_input\(x, span\)"):
        relformer.attend(q, k, v, encoding)
    relformer.attend(q, k, v, encoding, span=relformer.make_span(encoding, range(6)))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda q, k, v: relformer.attend(q[0], k, v, made("t5")), "split the heads first"),
        (lambda q, k, v: relformer.attend(q, k[:, :2], v, made("t5")), "batch and heads must agree"),
        (lambda q, k, v: relformer.attend(q, k, v, made("t5"), padding=torch.ones(2, 5).bool()), "of the keys'"),
        (lambda q, k, v: relformer.attend(q, k, v, made("t5"), padding=torch.ones(2, 6)), "it must be bool"),
        (lambda q, k, v: relformer.attend(q, k, v, made("t5"), q_positions=range(5)), "q has 6 tokens, but 5"),
        (lambda q, k, v: relformer.attend(q, k, v, made("forgetting")), r"features=encoding\.features\(x\)"),
        (lambda q, k, v: relformer.attend(q, k, v, made("randomized")), "draws positions, once for a batch"),
        (lambda q, k, v: relformer.attend(q, k, v, made("shaw"), backend="sdpa"), "backend=sdpa can't serve"),
        (lambda q, k, v: made("t6"), "no encoding 't6'; did you mean 't5'"),
        (lambda q, k, v: made("t5", num_bukets=8), "did you mean 'num_buckets'"),
        (lambda q, k, v: made("rope", base=0.5), "base=0.5 must be greater than 1"),
        (lambda q, k, v: relformer.build_encoding("cope", heads=2, head_dim=4), "cope can't serve an encoder"),
        (lambda q, k, v: relformer.build_encoding("complex", heads=2, head_dim=4), "a row for each word"),
        (lambda q, k, v: relformer.build_encoding("t5", heads=0, head_dim=4), "heads=0 must be"),
        (lambda q, k, v: relformer.build_model("tny", vocabulary=9), "no model 'tny'; did you mean 'tiny'"),
        (lambda q, k, v: relformer.build_model({"widht": 9}, vocabulary=9), "did you mean 'width'"),
        (lambda q, k, v: relformer.build_model({"norm": "past"}, vocabulary=9), "model.norm='past' is not one of"),
        (lambda q, k, v: relformer.build_model(encoding={"base": 9.0}, vocabulary=9), "has no name"),
        (lambda q, k, v: relformer.build_model(encoding="shaw", vocabulary=9, backend="flex"), "can't serve"),
        (lambda q, k, v: relformer.compose(["encoding=alibbi"]), "did you mean 'alibi'"),
        (lambda q, k, v: relformer.compose("encoding=alibi"), "a list of overrides, not one string"),
        (lambda q, k, v: relformer.compose(["encoding=alibi,t5"]), "lists several values"),
        (lambda q, k, v: relformer.compose(["model.heads=6"], checked=True), "model.heads=6 does not divide"),
    ],
)
def test_faults_are_sentences(call: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        call(*qkv(6, 6))


def test_weights_follow_from_the_seed_and_spend_no_randomness() -> None:
    before = torch.random.get_rng_state()
    one, same, other = (made("t5", seed=seed).bucket_weight for seed in (3, 3, 4))
    assert torch.equal(one, same) and not torch.equal(one, other)
    models = [relformer.build_model("tiny", name, vocabulary=9).source_embedding.weight for name in ("t5", "rope")]
    assert torch.equal(*models) and torch.equal(before, torch.random.get_rng_state())


def test_a_model_of_a_preset_is_that_of_the_command_line() -> None:
    """Names mean the same in both: conf/model and conf/encoding."""
    from relformer.config import plain
    from relformer.model import build_model

    config = relformer.compose(["model=small", "encoding=shaw", "decoder_encoding=alibi"])
    theirs = build_model(plain(config, "seed", "model", "attention", "encoding", "decoder_encoding"), 9, 12)
    ours = relformer.build_model("small", "shaw", decoder_encoding="alibi", vocabulary=(9, 12))
    assert str(ours) == str(theirs)
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))


def test_options_of_encodings_do_not_collide_with_the_arguments() -> None:
    from inspect import signature

    taken = set(signature(relformer.build_encoding).parameters) - {"options"}
    for name in encodings:
        assert not taken & set(encodings[name].options()), name


def test_a_configuration_without_hydras_own() -> None:
    config = relformer.compose(["data=reverse", "cross_encoding=rope", "decoder_encoding=null"])
    assert "hydra" not in config and config.cross_encoding.name == "rope" and "decoder_encoding" not in config
