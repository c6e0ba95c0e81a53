"""Where gradients reach, that backends agree on them, and that rows with nothing to see give zeros."""

import pytest
import torch
from torch import Tensor

from relformer.attention import attend
from relformer.attention.sdpa import serves
from relformer.errors import UserError
from relformer.model import Seq2Seq, build_model
from relformer.registry import encodings
from tests.encodings.calls import make, qkv, ready
from tests.model.models import PAD, PLACES, SOURCES, TARGETS, batch, build, config, loss_of

SERVED = [p for p in PLACES if all(serves(encoding) for slot in build(p).slots.values() for encoding in slot)]
LONG = [p for p in PLACES if p not in SERVED]

WHOLE_TABLES = ("bucket_weight", "distance_weight", "key_rows", "value_rows", "deberta_rows")
"""Tables of which a long enough batch reads every row, but for those of `dead_rows`."""


def dead_rows(place: str, name: str, rows: int) -> set[int]:
    """Rows no pair can read: T5's distance 0 to the future; Shaw's and DeBERTa's future in a causal decoder."""
    if name.endswith("bucket_weight") and ("encoder.slot" in name or "decoder.cross" in name):
        return {rows // 2}
    if place.startswith("shaw") and "decoder.slot" in name:
        return set(range(rows // 2 + 1, rows))
    if place.startswith("deberta") and "decoder.slot" in name:
        return set(range(rows // 2))
    return set()


def gradients(model: Seq2Seq) -> dict[str, Tensor]:
    source = torch.arange(36).reshape(3, 12) % (SOURCES - 2) + 2
    target = torch.arange(39).reshape(3, 13) * 5 % (TARGETS - 2) + 2
    source[2, -4:] = PAD
    loss_of(model, source, target).backward()
    found = {}
    for name, p in model.named_parameters():
        assert p.grad is not None, f"no gradient for {name}"
        found[name] = p.grad
    return found


@pytest.mark.parametrize("place", PLACES)
def test_gradients_reach_every_parameter_that_can_be_used(place: str) -> None:
    for name, gradient in gradients(build(place)).items():
        assert gradient.isfinite().all(), name
        assert (gradient != 0).any(), name
        if name.rpartition(".")[2] in WHOLE_TABLES:
            unread = set((gradient == 0).all(-1).nonzero().flatten().tolist())
            assert unread == dead_rows(place, name, len(gradient)), name


@pytest.mark.parametrize("place", PLACES)
def test_gradients_reach_every_parameter_from_the_start(place: str) -> None:
    """At step 0 too, where the encodings still have the parameters they are drawn with."""
    for name, gradient in gradients(build_model(config(place), SOURCES, TARGETS, PAD)).items():
        assert (gradient != 0).any(), name


def outcome(place: str, backend: str, **sizes: object) -> tuple[Tensor, dict[str, Tensor]]:
    model, (source, target) = build(place, backend=backend, model=sizes), batch()
    with torch.no_grad():
        logits = model(source, target)
    return logits, gradients(model)


@pytest.mark.parametrize("other", ["sdpa", "auto"])
@pytest.mark.parametrize("place", SERVED)
def test_backends_agree(place: str, other: str) -> None:
    logits, wanted = outcome(place, "dense")
    same, got = outcome(place, other)
    torch.testing.assert_close(same, logits, rtol=1e-5, atol=1e-5)
    for name, gradient in wanted.items():
        torch.testing.assert_close(got[name], gradient, rtol=1e-4, atol=1e-6, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("place", LONG)
def test_what_sdpa_cannot_serve_is_refused_there_and_dense_elsewhere(place: str) -> None:
    logits, _ = outcome(place, "dense")
    torch.testing.assert_close(outcome(place, "auto")[0], logits, rtol=1e-5, atol=1e-5)
    with pytest.raises(UserError, match=r"attention\.backend=sdpa.*use attention\.backend=auto or dense"):
        build(place, backend="sdpa")(*batch())


def test_both_kinds_of_encoding_are_there() -> None:
    """Guards the two lists."""
    assert {"none", "alibi", "rope@cross", "t5@cross"} <= set(SERVED)
    assert {"shaw", "transformer_xl", "shaw@cross"} <= set(LONG)


@pytest.mark.parametrize("backend", ["dense", "sdpa", "auto"])
@pytest.mark.parametrize("place", PLACES)
def test_a_source_of_padding_alone_gives_finite_numbers(place: str, backend: str) -> None:
    if backend == "sdpa" and place in LONG:
        backend = "dense"
    source, target = batch()
    source[1] = PAD
    model = build(place, backend=backend)
    loss_of(model, source, target).backward()
    assert model(source, target).isfinite().all()
    for name, p in model.named_parameters():
        assert p.grad is not None
        assert p.grad.isfinite().all(), name


@pytest.mark.parametrize("place", PLACES)
@torch.no_grad()
def test_a_source_of_padding_alone_reaches_no_target(place: str) -> None:
    """Cross-attention to it adds zeros, whatever stands in the padding's states."""
    model, (source, target) = build(place), batch()
    source[1] = PAD
    cache = model.start(source, 10)
    logits = model.step(target, cache)
    for memory in (other := model.start(source, 10)).cross:
        memory.v[1] += 100.0
        memory.k[1] -= 7.0
    torch.testing.assert_close(model.step(target, other), logits)


@pytest.mark.parametrize("backend", ["dense", "sdpa"])
@pytest.mark.parametrize("name", [n for n in encodings if n in SERVED])
def test_a_fully_masked_row_is_zero_and_passes_no_gradient(name: str, backend: str) -> None:
    encoding = make(name)
    inputs = [t.requires_grad_() for t in qkv(4, 5)]
    padding = torch.ones(2, 5, dtype=torch.bool)
    padding[1] = False
    out = attend(*inputs, encoding, ready(encoding, range(4), range(5)), padding=padding, backend=backend)
    assert (out[1] == 0).all()
    assert (out[0] != 0).any()
    out.square().sum().backward()
    for t in inputs:
        assert t.grad is not None
        assert (t.grad[1] == 0).all()
        assert t.grad[0].isfinite().all()
        assert (t.grad[0] != 0).any()
    assert all(p.grad is None or p.grad.isfinite().all() for p in encoding.parameters())
