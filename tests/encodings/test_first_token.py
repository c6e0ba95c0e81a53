"""The first token apart: which pairs it takes, and that all others keep the encoding's own bias."""

import pytest
import torch

from relformer.attention.call import Call
from relformer.encodings import Positions
from tests.encodings.calls import enliven, make, pair_bias, qkv, ready

NAMES = ("t5", "alibi", "simple_bias")
SAMPLED = torch.tensor([[0, 2, 5, 6], [1, 2, 7, 9]])


@pytest.mark.parametrize("name", NAMES)
def test_off_is_the_table_alone(name: str) -> None:
    encoding = make(name)
    assert encoding.acts("table")
    assert not encoding.acts("bias")
    assert encoding.bias(ready(encoding, range(4), range(4))) is None


@pytest.mark.parametrize("positions", [range(5), range(3, 8), SAMPLED], ids=["range", "later", "sampled"])
@pytest.mark.parametrize("role", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize("name", NAMES)
def test_pairs_with_position_zero_and_no_others(name: str, role: str, positions: Positions) -> None:
    plain, untied = make(name, role), make(name, role, untie_first=True)
    enliven(untied)
    plain.load_state_dict({k: p for k, p in untied.state_dict().items() if k in plain.state_dict()})
    assert untied.acts("bias")
    assert not untied.acts("table")
    q, k, v = qkv(4, 4)
    bias = Call(q, k, v, untied, ready(untied, positions, positions), (q, k)).bias
    assert bias is not None
    wanted = pair_bias(plain, positions, positions).expand_as(bias).clone()
    rows = [list(positions)] * len(bias) if isinstance(positions, range) else positions.tolist()
    for b, row in enumerate(rows):
        for n, t in enumerate(row):
            if t == 0:
                wanted[b, :, :, n] = untied.to_first[:, None]
                if role != "decoder":
                    wanted[b, :, n] = untied.from_first[:, None]
    assert torch.equal(bias, wanted)


@pytest.mark.parametrize("name", NAMES)
def test_a_decoders_first_token_has_no_keys_to_weigh(name: str) -> None:
    assert make(name, "decoder", untie_first=True).from_first is None
