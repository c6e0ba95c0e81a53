"""Greedy decoding through the cache: the full pass at each step, and the exact match that needs no decoding."""

import pytest
import torch
from torch import Tensor

from relformer.data.batching import Batches, Frame, Plan, padded
from relformer.data.vocabulary import BOS, EOS, PAD
from relformer.decoding import greedy
from relformer.evaluation.outcomes import COLUMNS, judge
from relformer.model import Seq2Seq
from tests.decoding.trained import corpus, trained

ENCODINGS = ("t5", "rope")
LIMIT = 12


@torch.no_grad()
def without_cache(model: Seq2Seq, source: Tensor, limit: int) -> list[int]:
    """One unpadded source (1, S): the whole target again for each token, up to EOS."""
    target = [BOS]
    while len(target) <= limit and (len(target) == 1 or target[-1] != EOS):
        target.append(int(model(source, torch.tensor([target]))[0, -1].argmax()))
    return target[1:]


def until_end(row: list[int]) -> list[int]:
    return row[: row.index(EOS) + 1] if EOS in row else row


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_greedy_takes_the_best_token_of_a_full_pass(encoding: str) -> None:
    model = trained(encoding)
    sets = [corpus().sets[name] for name in ("test_iid", "test_longer")]
    batch = padded([Frame().source(source) for each in sets for source in each.sources[::15]])
    ends = set()
    for row, source in zip(greedy(model, batch, LIMIT, BOS, EOS).tolist(), batch, strict=True):
        expected = without_cache(model, source[source != PAD][None], LIMIT)
        assert until_end(row) == expected
        ends.add(len(expected))
        assert set(row[len(expected) :]) <= {PAD}
    assert len(ends) > 1


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_no_more_tokens_than_allowed(limit: int) -> None:
    batch = Batches(corpus().sets["test_longer"])[Plan((0, 100))]
    longer = greedy(trained("rope"), batch.source, LIMIT, BOS, EOS)
    found = greedy(trained("rope"), batch.source, limit, BOS, EOS)
    assert found.shape == (2, limit)
    assert torch.equal(found, longer[:, :limit])


def test_decoding_stops_when_all_have_ended() -> None:
    model = trained("rope")
    batch = Batches(corpus().sets["test_iid"])[Plan((0,))]
    found = greedy(model, batch.source, 50, BOS, EOS)
    assert found[0, -1] == EOS and found.shape[1] < 10


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_exact_match_of_one_teacher_forced_pass_is_that_of_decoding(encoding: str) -> None:
    model = trained(encoding)
    verdicts = set()
    for name in ("test_iid", "val_longer", "test_longer"):
        examples = corpus().sets[name]
        batch = Batches(examples)[Plan(tuple(range(len(examples))))]
        with torch.no_grad():
            logits = model(batch.source, batch.target)
        rows = judge(logits, batch.labels, batch.index, batch.index, PAD, EOS)
        decoded = greedy(model, batch.source, LIMIT, BOS, EOS)
        for row, tokens, labels in zip(rows.tolist(), decoded.tolist(), batch.labels.tolist(), strict=True):
            outcome = dict(zip(COLUMNS, row, strict=True))
            reference = until_end(labels)
            assert bool(outcome["exact_match"]) == (until_end(tokens) == reference)
            agreed = 0
            while agreed < len(reference) and agreed < len(tokens) and tokens[agreed] == reference[agreed]:
                agreed += 1
            assert outcome["first_error"] == agreed
            verdicts.add((name, bool(outcome["exact_match"]), agreed > 0))
    assert ("test_iid", True, True) in verdicts
    assert {("test_longer", False, True), ("test_iid", False, True), ("test_iid", False, False)} & verdicts
