"""On a CUDA device: kernels agree, bfloat16 trains, and the cache decodes as a full pass does."""

import pytest
import torch
from torch import Tensor

from relformer.model import Seq2Seq
from relformer.registry import encodings
from tests.model.models import PAD, PLACES, SOURCES, TARGETS, build, loss_of
from tests.model.test_gradients import SERVED

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
SIZES = {"width": 48, "heads": 3, "feedforward": 40}  # 16 channels a head: the fused kernels want a multiple of 8


def placed(place: str, backend: str = "auto") -> Seq2Seq:
    """In strict float32: TF32 keeps 10 bits, and would hide what these tests look for."""
    torch.backends.cuda.matmul.allow_tf32 = False
    return build(place, backend=backend, model=SIZES).cuda()


def batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    source = torch.randint(2, SOURCES, (4, 21), generator=generator)
    source[1, -6:] = PAD
    source[2, 5:] = PAD
    target = torch.randint(2, TARGETS, (4, 19), generator=generator)
    return source.cuda(), target.cuda()


def outcome(place: str, backend: str) -> tuple[Tensor, dict[str, Tensor]]:
    model = placed(place, backend)
    loss_of(model, *batch()).backward()
    with torch.no_grad():
        return model(*batch()), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("place", SERVED)
def test_backends_agree(place: str) -> None:
    logits, wanted = outcome(place, "dense")
    for backend in ("sdpa", "auto"):
        same, got = outcome(place, backend)
        torch.testing.assert_close(same, logits, rtol=1e-4, atol=1e-4)
        assert got.keys() == wanted.keys()
        for name, gradient in wanted.items():
            torch.testing.assert_close(got[name], gradient, rtol=1e-3, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("place", PLACES)
def test_the_device_gives_the_numbers_of_the_cpu(place: str) -> None:
    model, (source, target) = placed(place), batch()
    with torch.no_grad():
        device = model(source, target).cpu()
        host = model.cpu()(source.cpu(), target.cpu())
    torch.testing.assert_close(device, host, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("place", PLACES)
@torch.no_grad()
def test_cached_is_uncached(place: str) -> None:
    model, (source, target) = placed(place), batch()
    full = model(source, target)
    for size in (1, 3):
        cache = model.start(source, target.shape[1])
        steps = torch.cat([model.step(tokens, cache) for tokens in target.split(size, dim=1)], dim=1)
        torch.testing.assert_close(steps, full, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("place", PLACES)
def test_a_bfloat16_step_trains(place: str) -> None:
    """Under autocast: all gradients are finite, and the step moves the loss as one in float32 does."""
    model, (source, target) = placed(place).train(), batch()
    exact = float(loss_of(model, source, target).detach())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    with torch.autocast("cuda", torch.bfloat16):
        loss = loss_of(model, source, target)
    assert float(loss.detach()) == pytest.approx(exact, rel=3e-2)
    loss.backward()
    for name, p in model.named_parameters():
        assert p.grad is not None, name
        assert p.grad.isfinite().all(), name
    optimizer.step()
    with torch.autocast("cuda", torch.bfloat16), torch.no_grad():
        assert float(loss_of(model, source, target)) < float(loss.detach())


@pytest.mark.parametrize("backend", ["dense", "sdpa"])
@pytest.mark.parametrize("name", [n for n in encodings if n in SERVED])
@pytest.mark.parametrize("autocast", [False, True])
def test_a_source_of_padding_alone_gives_finite_numbers(name: str, backend: str, autocast: bool) -> None:
    model, (source, target) = placed(name, backend), batch()
    source[1] = PAD
    with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
        loss = loss_of(model, source, target)
        assert model(source, target).isfinite().all()
    loss.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
