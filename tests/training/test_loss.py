"""The loss: smoothed cross-entropy by its formula, by chunks, and one normalisation whatever the ranks and batches."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from relformer.benchmark.memory import peak
from relformer.data.batching import Batches
from relformer.data.corpus import build_corpus
from relformer.data.encoded import Corpus, EncodedSet
from relformer.data.planning import ByNumber, Share, TrainingPlans
from relformer.data.vocabulary import PAD
from relformer.errors import OptionError
from relformer.model import Seq2Seq, build_model
from relformer.training.loss import LossOptions, summed_loss


def by_formula(logits: Tensor, labels: Tensor, smoothing: float) -> float:
    """(1 - s) times the surprise of the label and s times the mean surprise over the vocabulary, summed over tokens."""
    total = 0.0
    for row, scores in zip(labels.tolist(), logits.double(), strict=True):
        for label, score in zip(row, scores, strict=True):
            surprise = score.logsumexp(0) - score
            if label != PAD:
                total += float((1 - smoothing) * surprise[label] + smoothing * surprise.mean())
    return total


LABELS = torch.tensor([[3, 4, 2, 0, 0], [6, 2, 0, 0, 0], [2, 0, 0, 0, 0], [3, 4, 5, 6, 2]])
WIDTH, SIZE = 6, 7
CHUNKS = [1, 3 * SIZE + 2, 10_000]
"""Budgets for one row at a time, three, and all of them."""


def inputs(dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """States, weight and bias of an output layer, which make logits of some size."""
    generator = torch.Generator().manual_seed(0)
    shapes = ((*LABELS.shape, WIDTH), (SIZE, WIDTH), (SIZE,))
    return [(2 * torch.randn(s, generator=generator, dtype=dtype)).requires_grad_() for s in shapes]


def plain(states: Tensor, weight: Tensor, bias: Tensor | None, smoothing: float, labels: Tensor = LABELS) -> Tensor:
    logits = F.linear(states, weight, bias).flatten(0, 1)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return F.cross_entropy(logits, labels.flatten(), ignore_index=PAD, reduction="sum", label_smoothing=smoothing)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("chunk", CHUNKS)
def test_label_smoothing_is_its_formula(smoothing: float, chunk: int) -> None:
    states, weight, bias = (each.detach() for each in inputs())
    found = float(summed_loss(states, weight, bias, LABELS, PAD, LossOptions(smoothing, chunk)))
    assert found == pytest.approx(by_formula(F.linear(states, weight, bias), LABELS, smoothing), rel=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("biased", [True, False])
def test_loss_and_gradients_are_those_of_all_logits_at_once(smoothing: float, chunk: int, biased: bool) -> None:
    states, weight, bias = inputs()
    layer = (states, weight, bias) if biased else (states, weight)
    expected = plain(states, weight, bias if biased else None, smoothing)
    found = summed_loss(states, weight, bias if biased else None, LABELS, PAD, LossOptions(smoothing, chunk))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    wanted = torch.autograd.grad(expected / 11, layer)
    torch.testing.assert_close(torch.autograd.grad(found / 11, layer), wanted, rtol=1e-9, atol=1e-12)
    assert all(g.abs().max() > 1e-2 for g in wanted) and not wanted[0][LABELS == PAD].any()


@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_what_is_frozen_has_no_gradient(frozen: int) -> None:
    layer = inputs()
    layer[frozen].requires_grad_(False)
    summed_loss(*layer, LABELS, PAD).backward()
    assert [each.grad is None for each in layer] == [n == frozen for n in range(3)]
    with torch.no_grad():
        assert not summed_loss(*layer, LABELS, PAD).requires_grad


def test_a_batch_of_padding_counts_nothing() -> None:
    layer = inputs()
    loss = summed_loss(*layer, torch.full_like(LABELS, PAD), PAD)
    loss.backward()
    assert loss == 0 and not any(each.grad.any() for each in layer if each.grad is not None)


def test_gradients_add_up_over_batches() -> None:
    states, weight, bias = inputs()
    for share in (states[:1], states[1:]):
        summed_loss(share, weight, bias, LABELS[:1] if len(share) == 1 else LABELS[1:], PAD).backward()
    found = [each.grad for each in (states, weight, bias)]
    expected = torch.autograd.grad(plain(states, weight, bias, 0.0), (states, weight, bias))
    torch.testing.assert_close(found, list(expected), rtol=1e-9, atol=1e-12)


def test_the_softmax_is_in_float32_under_autocast() -> None:
    layer = inputs(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        expected, found = plain(*layer, smoothing=0.1), summed_loss(*layer, LABELS, PAD, LossOptions(0.1, CHUNKS[1]))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)  # the same rounded products
    assert abs(float(found.detach() - plain(*layer, smoothing=0.1))) > 1e-4
    wanted = torch.autograd.grad(expected, layer)
    for one, other in zip(torch.autograd.grad(found, layer), wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-2, atol=2e-2)
        assert one.dtype == torch.float32


def test_weights_in_low_precision_are_summed_in_float32() -> None:
    """Half of 600 rows push one way and half the other: sums that were kept in bfloat16 would not meet at 0."""
    states, weight = torch.ones(1, 600, 1).bfloat16(), torch.zeros(3, 1, dtype=torch.bfloat16, requires_grad=True)
    labels = torch.tensor([1, 2]).repeat_interleave(300)[None]
    summed_loss(states, weight, None, labels, PAD, LossOptions(max_logits=3)).backward()
    assert weight.grad is not None and weight.grad.dtype == torch.bfloat16
    torch.testing.assert_close(weight.grad.float(), torch.tensor([[200.0], [-100.0], [-100.0]]), rtol=5e-3, atol=0)


@pytest.mark.parametrize("tie", ["none", "decoder", "all"])
def test_the_head_of_a_model_is_its_logits(tie: str) -> None:
    config = {"seed": 0, "model": {"width": 16, "heads": 2, "tie": tie}, "encoding": {"name": "t5"}}
    built = build_model(config, SIZE, SIZE, PAD).double()
    source, target = LABELS, LABELS.roll(1, dims=1)
    torch.testing.assert_close(F.linear(built.states(source, target), *built.head), built(source, target))
    gradients = []
    for loss in (
        summed_loss(built.states(source, target), *built.head, LABELS, PAD, LossOptions(0.1, CHUNKS[1])),
        plain(built.states(source, target), *built.head, smoothing=0.1),
    ):
        built.zero_grad()
        loss.backward()
        gradients.append({name: p.grad.clone() for name, p in built.named_parameters() if p.grad is not None})
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-12)


def peak_megabytes(loss: Callable[[Tensor, Tensor, Tensor], Tensor]) -> float:
    """What forward and backward of a head with V=8000 hold for 2048 tokens."""
    states, weight = torch.randn(16, 128, 256).requires_grad_(), torch.randn(8000, 256).requires_grad_()
    labels = torch.randint(1, 8000, (16, 128))
    return peak(lambda: loss(states, weight, labels).backward(), torch.device("cpu"))


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads Linux's figures of memory")
def test_the_logits_of_a_chunk_alone_exist() -> None:
    """Measured 43 MB, against 200 of all logits at once."""
    assert peak_megabytes(lambda states, weight, labels: summed_loss(states, weight, None, labels, PAD)) < 60
    assert peak_megabytes(lambda states, weight, labels: plain(states, weight, None, 0.0, labels)) > 150


@pytest.mark.parametrize("options", [{"label_smoothing": 1.0}, {"label_smoothing": -0.1}, {"max_logits": 0}])
def test_options_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=f"loss.{next(iter(options))}"):
        LossOptions(**options)


def corpus() -> Corpus:
    options = {"seed": 0, "bos": True, "batch_size": 9, "eval_batch_size": 9, "max_steps": 1, "workers": 0}
    return build_corpus({"name": "reverse", **options, "examples": 100, "examples_per_length": 2})


def plans(examples: EncodedSet, size: int, share: Share = Share(), start: int = 0) -> TrainingPlans:  # noqa: B008  frozen
    return TrainingPlans(ByNumber(examples, size, 0), examples.target_lengths + 1, share, start)


def model(size: int) -> Seq2Seq:
    config = {"seed": 0, "model": {"width": 16, "heads": 2, "feedforward": 16}, "encoding": {"name": "t5"}}
    return build_model(config, size, size, PAD).double()


def gradient(world: int, accumulate: int, size: int, step: int) -> list[Tensor]:
    """Of one optimizer step of so many ranks and batches: averaged over both, as a Trainer does."""
    data = corpus()
    examples, built = data.sets["train"], model(len(data.target_vocabulary))
    for rank in range(world):
        share = Share(rank, world, accumulate)
        for plan in islice(plans(examples, size, share, step * accumulate), accumulate):
            batch = Batches(examples)[plan]
            states = built.states(batch.source, batch.target)
            loss = summed_loss(states, *built.head, batch.labels, PAD) / batch.tokens
            (loss / (accumulate * world)).backward()
    return [p.grad.clone() for p in built.parameters() if p.grad is not None]


@pytest.mark.parametrize(("world", "accumulate"), [(2, 1), (3, 1), (1, 3), (2, 3)])
@pytest.mark.parametrize("step", [0, 3])
def test_shares_of_a_batch_have_its_gradient(world: int, accumulate: int, step: int) -> None:
    """18 examples a step; none of the shares has as many tokens as another."""
    whole = gradient(1, 1, 18, step)
    shared = gradient(world, accumulate, 18 // accumulate, step)
    assert max(float(g.abs().max()) for g in whole) > 1e-2
    torch.testing.assert_close(shared, whole, rtol=1e-5, atol=1e-7)


def test_the_gradient_is_of_the_mean_over_all_tokens() -> None:
    data = corpus()
    examples, built = data.sets["train"], model(len(data.target_vocabulary))
    plan = next(iter(plans(examples, 18)))
    batch = Batches(examples)[plan]
    logits = built(batch.source, batch.target)
    surprise = -logits.log_softmax(-1).gather(-1, batch.labels[..., None])[..., 0]
    surprise[batch.labels != PAD].mean().backward()
    expected = [p.grad for p in built.parameters() if p.grad is not None]
    torch.testing.assert_close(gradient(1, 1, 18, 0), expected, rtol=1e-9, atol=1e-12)
