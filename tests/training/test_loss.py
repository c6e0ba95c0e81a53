"""The loss: smoothed cross-entropy by its formula, and one normalisation whatever the ranks and accumulated batches."""

from itertools import islice

import pytest
import torch
from torch import Tensor

from relformer.data.batching import Batches
from relformer.data.corpus import build_corpus
from relformer.data.encoded import Corpus, EncodedSet
from relformer.data.planning import ByNumber, Share, TrainingPlans
from relformer.data.vocabulary import PAD
from relformer.model import Seq2Seq, build_model
from relformer.training.loss import summed_loss


def by_formula(logits: Tensor, labels: Tensor, smoothing: float) -> float:
    """(1 - s) times the surprise of the label and s times the mean surprise over the vocabulary, summed over tokens."""
    total = 0.0
    for row, scores in zip(labels.tolist(), logits.double(), strict=True):
        for label, score in zip(row, scores, strict=True):
            surprise = score.logsumexp(0) - score
            if label != PAD:
                total += float((1 - smoothing) * surprise[label] + smoothing * surprise.mean())
    return total


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
def test_label_smoothing_is_its_formula(smoothing: float) -> None:
    logits = 3 * torch.randn(4, 5, 7, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([[3, 4, 2, 0, 0], [6, 2, 0, 0, 0], [2, 0, 0, 0, 0], [3, 4, 5, 6, 2]])
    found = float(summed_loss(logits, labels, PAD, smoothing))
    assert found == pytest.approx(by_formula(logits, labels, smoothing), rel=1e-6)


def test_the_loss_is_in_float32_under_low_precision() -> None:
    logits = torch.randn(2, 3, 7).bfloat16()
    assert summed_loss(logits, torch.tensor([[3, 4, 2], [5, 2, 0]]), PAD).dtype == torch.float32


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
            loss = summed_loss(built(batch.source, batch.target), batch.labels, PAD) / batch.tokens
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
    # summed_loss works in float32.
    torch.testing.assert_close(gradient(1, 1, 18, 0), expected, rtol=1e-4, atol=1e-7)
