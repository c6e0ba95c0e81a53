"""RoPE with biased projections: what the biases add, and that a model without them is refused."""

import pytest
import torch

from relformer.errors import UserError
from relformer.model import ModelOptions, build_model
from relformer.model.slot import build_slot
from tests.encodings.calls import make, randn, ready
from tests.model.models import SOURCES, TARGETS, batch, build, config, node


def test_the_product_of_the_biases_is_a_bias_of_distance() -> None:
    encoding = make("rope_bias")
    a, b = (randn(1, 3, 1, 8, seed=s).expand(1, 3, 9, 8) for s in (1, 2))
    span = ready(encoding, range(9), range(9))
    bias = encoding.query(a, span) @ encoding.key(b, span).mT
    torch.testing.assert_close(bias[..., 1:, 1:], bias[..., :-1, :-1], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(bias, bias.mT, atol=1e-2)


@torch.no_grad()
def test_biases_of_zero_are_rope_and_others_are_not() -> None:
    source, target = batch()
    biased = build("rope_bias")
    plain = build("rope", model={"attention_bias": "qk"})(source, target)
    assert torch.equal(biased(source, target), plain)
    for layer in (*biased.encoder.layers, *biased.decoder.layers):
        layer.attention.query.bias.fill_(0.5)
        layer.attention.key.bias.copy_(randn(24))
    assert not torch.allclose(biased(source, target), plain, atol=1e-2)


@pytest.mark.parametrize("biased", ["qk", "qkv", "all"])
def test_any_biases_on_queries_and_keys_will_do(biased: str) -> None:
    build("rope_bias@cross", model={"attention_bias": biased})


def test_a_model_without_them_is_refused_with_the_remedy() -> None:
    with pytest.raises(UserError, match=r"^decoder_encoding=rope_bias needs .*; set model\.attention_bias=qk, or use "):
        build_slot(node("rope_bias"), "decoder", "decoder_encoding", ModelOptions())
    with pytest.raises(UserError, match=r"^encoding=rope_bias needs model\.attention_bias=qk or qkv or all, not none"):
        build_model(config("rope_bias", model={"attention_bias": "none"}), SOURCES, TARGETS)
