"""Every registered encoding against its loop oracle, at every kind of position and in every role."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from relformer.attention import attend
from relformer.encodings import Positions, as_tensor
from relformer.encodings.span import count
from relformer.registry import encodings
from tests.encodings.all_oracles import ORACLES
from tests.encodings.calls import CPU, HEAD_DIM, HEADS, WIDTH, enliven, make, probabilities, qkv, randn, ready
from tests.encodings.oracles import Call, Case, Oracle, attention

ROLES = ("encoder", "decoder", "cross")
SAMPLED = torch.tensor([[0, 3, 4, 9, 17, 40]])
BY_ROW = torch.tensor([[0, 2, 3, 7, 8, 30], [1, 4, 5, 6, 21, 22]])
SCENES: dict[str, tuple[Positions, Positions]] = {
    "start": (range(6), range(6)),
    "offset": (range(100, 106), range(100, 106)),
    "decode row": (range(5, 6), range(6)),
    "last queries": (range(3, 7), range(7)),
    "more queries": (range(7), range(4)),
    "sampled": (SAMPLED, SAMPLED),
    "sampled by row": (BY_ROW, BY_ROW),
    "sampled decode row": (BY_ROW[:, -1:], BY_ROW),
    "sampled to range": (BY_ROW, range(5)),
    "range to sampled": (range(40, 45), SAMPLED),
}


def plays(name: str, role: str) -> bool:
    """Whether the encoding is defined in a role."""
    return role not in encodings[name].cls.refuses  # type: ignore[attr-defined]


CASES = [
    pytest.param(name, options, id=f"{name}-{number}")
    for name in encodings
    for number, options in enumerate(ORACLES.get(name, Oracle()).variants)
]


PLAYED = [
    pytest.param(*case.values, role, id=f"{case.id}-{role}")
    for case in CASES
    for role in ROLES
    if plays(str(case.values[0]), role)
]


def case_of(name: str, role: str, options: dict[str, Any], encoding: torch.nn.Module) -> Case:
    every = {key: option.default for key, option in encodings[name].options().items()} | options
    weights = {key: p.detach().double().tolist() for key, p in encoding.named_parameters()}
    return Case(HEADS, HEAD_DIM, WIDTH, role, every, weights)


def looped(
    name: str, case: Case, q: Tensor, k: Tensor, v: Tensor, x: Tensor, at: tuple[Positions, Positions], padding: Tensor
) -> tuple[Tensor, Tensor]:
    """Probabilities and outputs of the oracle, a batch row at a time; x are the keys' inputs."""
    results = []
    rows = [as_tensor(p, CPU).expand(len(q), -1).tolist() for p in at]
    for b in range(len(q)):
        i, j = rows[0][b], rows[1][b]
        real = padding[b].tolist()
        keep = [[real[y] and (case.role != "decoder" or j[y] <= i[x]) for y in range(len(j))] for x in range(len(i))]
        lists = [t[b].double().tolist() for t in (q, k, v)]
        results.append(attention(case, ORACLES[name], Call(*lists, i, j, keep, x[b].double().tolist())))
    first, second = (torch.tensor([r[n] for r in results], dtype=torch.float64) for n in (0, 1))
    return first, second


def padding_for(keys: int) -> Tensor:
    """The second row's last key is padding."""
    padding = torch.ones(2, keys, dtype=torch.bool)
    padding[1, -1] = False
    return padding


@pytest.mark.parametrize("name", list(encodings))
def test_every_registered_encoding_has_an_oracle(name: str) -> None:
    assert name in ORACLES, f"write the formula of {name!r} as a loop in tests/encodings/oracles.py"


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize(("name", "options", "role"), PLAYED)
def test_attention_equals_the_loops(name: str, options: dict[str, Any], role: str, scene: str) -> None:
    check_loops(name, options, role, SCENES[scene], relative=1e-5, absolute=2e-6)


@pytest.fixture
def double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("scene", ["offset", "decode row", "sampled by row"])
@pytest.mark.parametrize(("name", "options", "role"), PLAYED)
def test_attention_in_float64_equals_the_loops(name: str, options: dict[str, Any], role: str, scene: str) -> None:
    check_loops(name, options, role, SCENES[scene], relative=1e-10, absolute=1e-10)


def check_loops(
    name: str, options: dict[str, Any], role: str, at: tuple[Positions, Positions], relative: float, absolute: float
) -> None:
    encoding = make(name, role, **options)
    enliven(encoding)
    q, k, v = qkv(count(at[0]), count(at[1]))
    x, padding = randn(2, count(at[1]), WIDTH, seed=9), padding_for(count(at[1]))
    expected_weights, expected = looped(name, case_of(name, role, options, encoding), q, k, v, x, at, padding)
    masks = {"padding": padding, "causal": role == "decoder", "features": encoding.features(x)}
    span = ready(encoding, *at)

    weights = probabilities(q, k, encoding, span, **masks)
    out = attend(q, k, v, encoding, span, backend="dense", **masks)

    torch.testing.assert_close(weights.double(), expected_weights, rtol=relative, atol=absolute)
    torch.testing.assert_close(out.double(), expected, rtol=relative, atol=absolute)


@pytest.mark.parametrize(("name", "options", "role"), PLAYED)
def test_attention_in_bfloat16_is_near(name: str, options: dict[str, Any], role: str) -> None:
    encoding, at = make(name, role, **options), SCENES["offset"]
    enliven(encoding)
    q, k, v = (t.bfloat16() for t in qkv(6, 6))
    x, padding = randn(2, 6, WIDTH, seed=9).bfloat16(), padding_for(6)
    _, expected = looped(name, case_of(name, role, options, encoding), q, k, v, x, at, padding)
    masks = {"padding": padding, "causal": role == "decoder", "features": encoding.features(x)}

    out = attend(q, k, v, encoding, ready(encoding, *at), backend="dense", **masks)

    assert out.dtype == torch.bfloat16
    assert (out.double() - expected).abs().max() <= 2e-2 * expected.abs().max()


@pytest.mark.parametrize("positions", [range(6), range(100, 106), range(5, 6), SAMPLED, BY_ROW], ids=str)
@pytest.mark.parametrize(("name", "options"), CASES)
def test_embedded_input_equals_the_loops(name: str, options: dict[str, Any], positions: Positions) -> None:
    encoding = make(name, **options)
    enliven(encoding)
    case = case_of(name, "encoder", options, encoding)
    x = randn(2, count(positions), WIDTH)
    rows = as_tensor(positions, CPU).expand(2, -1).tolist()
    expected = [
        [ORACLES[name].embed(case, x[b, t].double().tolist(), rows[b][t]) for t in range(x.shape[1])] for b in range(2)
    ]

    out = encoding.embed(x, torch.ones(2, x.shape[1], dtype=torch.long), positions)

    torch.testing.assert_close(out.double(), torch.tensor(expected, dtype=torch.float64), rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("name", [n for n, oracle in ORACLES.items() if oracle != Oracle(mirror_blind=True)])
def test_the_oracle_sees_positions(name: str) -> None:
    """Guards the tests above: an oracle that ignored positions could only agree with a broken encoding."""
    oracle, encoding = ORACLES[name], make(name)
    enliven(encoding)
    case = case_of(name, "encoder", {}, encoding)
    q, k, v = (t[0].tolist() for t in qkv(3, 3))
    free = [[True] * 3] * 3
    x = randn(WIDTH).tolist()
    near, far = (attention(case, oracle, Call(q, k, v, [0, 1, 2], j, free, [x] * 3)) for j in ([0, 1, 2], [2, 9, 5]))
    assert near != far or oracle.embed(case, x, 1) != oracle.embed(case, x, 2)
