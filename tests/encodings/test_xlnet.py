"""XLNet: Transformer-XL's scores with biases of each layer's own, against the package with a memory."""

import torch

from relformer.attention import attend
from tests.encodings.calls import enliven, fixture, make, probabilities, put, qkv, ready
from tests.model.models import build, check_cache


def test_scores_with_memory() -> None:
    """Three remembered keys before five queries; its time-first tensors have a batch of one."""
    case = fixture("xlnet")
    encoding = make("xlnet", heads=2, head_dim=4)
    put(
        encoding,
        relative_weight=case["param.r"].permute(1, 2, 0),  # (E, H, D) -> (H, D, E)
        u=case["param.r_w_bias"],
        v=case["param.r_r_bias"],
    )
    span = ready(encoding, range(3, 8), range(8))
    torch.testing.assert_close(span.prepared.transpose(0, 1), case["r_proj"][1:], rtol=0, atol=2e-5)
    q, k, v = (case[name].transpose(0, 1)[None] for name in "qkv")
    torch.testing.assert_close(probabilities(q, k, encoding, span)[0], case["probs"], rtol=0, atol=2e-5)
    out = attend(q, k, v, encoding, span, backend="dense")
    torch.testing.assert_close(out[0].transpose(0, 1), case["y"], rtol=0, atol=2e-5)


def test_it_differs_from_transformer_xl_in_what_layers_share() -> None:
    untied, tied = build("xlnet"), build("transformer_xl")
    for role in ("encoder", "decoder"):
        first, second = untied.slots[role].encodings
        assert first.u is not second.u
        assert first.v is not second.v
        assert not torch.equal(first.u, second.u)
    assert untied.position_parameters() == tied.position_parameters() + 2 * 2 * 24
    check_cache(untied)


def test_one_layer_computes_what_transformer_xl_does() -> None:
    outputs = []
    for name in ("xlnet", "transformer_xl"):
        encoding = make(name)
        enliven(encoding)
        outputs.append(attend(*qkv(6, 6), encoding, ready(encoding, range(6), range(6))))
    assert torch.equal(*outputs)
