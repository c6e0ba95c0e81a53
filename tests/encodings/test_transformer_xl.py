"""Transformer-XL's scores against two packages: XLNet with a memory, and the Conformer attention of wav2vec 2."""

import pytest
import torch

from relformer.attention import attend
from relformer.encodings.sinusoid import sinusoid
from tests.encodings.calls import enliven, fixture, joined, linear, make, probabilities, project, put, qkv, ready
from tests.model.models import batch, build, check_cache, loss_of


def test_xlnet_with_memory() -> None:
    """Three remembered keys before five queries; its time-first tensors have a batch of one."""
    case = fixture("xlnet")
    encoding = make("transformer_xl", heads=2, head_dim=4)
    put(
        encoding,
        relative_weight=case["param.r"].permute(1, 2, 0),  # (E, H, D) -> (H, D, E)
        u=case["param.r_w_bias"],
        v=case["param.r_r_bias"],
    )
    q, k, v = (case[name].transpose(0, 1)[None] for name in "qkv")
    span = ready(encoding, range(3, 8), range(8))
    torch.testing.assert_close(probabilities(q, k, encoding, span)[0], case["probs"], rtol=0, atol=2e-5)
    out = attend(q, k, v, encoding, span, backend="dense")
    torch.testing.assert_close(out[0].transpose(0, 1), case["y"], rtol=0, atol=2e-5)


def test_rows_of_xlnet_are_sinusoids_of_query_minus_key() -> None:
    distances = torch.arange(8, -5, -1)
    torch.testing.assert_close(sinusoid(distances, 8, "concat"), fixture("xlnet")["pos"], rtol=0, atol=2e-5)


def test_conformer() -> None:
    case = fixture("conformer_relative")
    torch.testing.assert_close(sinusoid(torch.arange(5, -6, -1), 12, "interleaved"), case["pos"], rtol=0, atol=2e-5)
    encoding = make("transformer_xl", heads=2, head_dim=6, layout="interleaved")
    put(
        encoding,
        relative_weight=case["param.linear_pos.weight"].unflatten(0, (2, 6)),
        u=case["param.pos_bias_u"],
        v=case["param.pos_bias_v"],
    )
    q, k, v = (project(case["x"], case, f"linear_{layer}", 2) for layer in "qkv")
    span = ready(encoding, range(6), range(6))
    torch.testing.assert_close(probabilities(q, k, encoding, span), case["probs"], rtol=0, atol=2e-5)
    out = attend(q, k, v, encoding, span, backend="dense")
    torch.testing.assert_close(linear(joined(out), case, "linear_out"), case["y"], rtol=0, atol=1e-4)


def test_clamp_length_makes_far_distances_one() -> None:
    """A key at distance 4 and the same key at distance 90 look alike once both are beyond the clamp."""
    q, k, v = qkv(1, 2)
    clamped, free = make("transformer_xl", clamp_length=3), make("transformer_xl")
    for encoding, same in ((clamped, True), (free, False)):
        enliven(encoding)
        near, far = (
            attend(q, k, v, encoding, ready(encoding, range(i, i + 1), range(2)), backend="dense") for i in (5, 91)
        )
        assert torch.allclose(near, far, atol=1e-6) == same


def test_parameters_and_how_layers_share_them() -> None:
    encoding = make("transformer_xl")
    shapes = {name: tuple(p.shape) for name, p in encoding.named_parameters()}
    assert shapes == {"relative_weight": (3, 8, 24), "u": (3, 8), "v": (3, 8)}
    assert encoding.share == "layer"
    assert set(encoding.shared) == {"u", "v"}


def test_content_bias_acts_without_the_position_term() -> None:
    """u shifts the scores of keys by content; with W = 0 nothing depends on position."""
    encoding = make("transformer_xl")
    enliven(encoding)
    put(encoding, relative_weight=torch.zeros(3, 8, 24))
    q, k, _ = qkv(4, 4)
    here = probabilities(q, k, encoding, ready(encoding, range(4), range(4)))
    there = probabilities(q, k, encoding, ready(encoding, range(40, 44), range(4)))
    torch.testing.assert_close(here, there)
    torch.testing.assert_close(here, ((q + encoding.u[:, None]) @ k.mT / 8**0.5).softmax(-1), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("terms", "names"),
    [
        (["c2c"], []),
        (["c2c", "p2c"], ["u"]),
        (["c2p"], ["relative_weight"]),
        (["p2p"], ["relative_weight", "v"]),
        (["p2p", "p2c", "c2p", "c2c"], ["relative_weight", "u", "v"]),
    ],
    ids=str,
)
def test_terms_have_only_the_parameters_they_read_and_every_weight_a_gradient(
    terms: list[str], names: list[str]
) -> None:
    assert sorted(name for name, _ in make("transformer_xl", terms=terms).named_parameters()) == names
    model = build("transformer_xl@cross", terms=terms)
    check_cache(model)
    loss_of(model, *batch()).backward()
    for name, p in model.named_parameters():
        assert p.grad is not None, name
        assert ".encodings." not in name or (p.grad != 0).any(), name


def test_content_alone_is_no_encoding_and_position_alone_sees_no_content() -> None:
    q, k, v = qkv(6, 6)
    outputs = []
    for name, options in (("none", {}), ("transformer_xl", {"terms": ["c2c"]})):
        encoding = make(name, **options)
        outputs.append(attend(q, k, v, encoding, ready(encoding, range(6), range(6)), backend="dense"))
    assert torch.equal(*outputs)
    position = make("transformer_xl", terms=["p2p"])
    enliven(position)
    span = ready(position, range(6), range(6))
    assert torch.equal(probabilities(q, k, position, span), probabilities(k, q, position, span))


def test_dropout_falls_on_the_relative_rows_in_training_alone() -> None:
    encoding, plain = (make("transformer_xl", relative_dropout=p) for p in (0.5, 0.0))
    enliven(encoding)
    enliven(plain)
    torch.manual_seed(0)
    wanted = ready(plain, range(6), range(6)).prepared
    drawn = torch.stack([ready(encoding, range(6), range(6)).prepared for _ in range(4000)])
    assert not torch.equal(drawn[0], drawn[1])
    torch.testing.assert_close(drawn.mean(0), wanted, rtol=0, atol=0.15)
    assert torch.equal(ready(encoding.eval(), range(6), range(6)).prepared, wanted)
