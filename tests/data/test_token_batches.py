"""Batches by token budget: within the budget, every pair once an epoch, the same list on every rank, little padding."""

from collections import Counter
from itertools import islice

import numpy as np
import pytest

from relformer.data.batching import FILLER, Batches, Frame
from relformer.data.encoded import EncodedSet
from relformer.data.planning import ByTokens, EvaluationPlans, Share, TrainingPlans


def captions(n: int, seed: int = 0) -> EncodedSet:
    """Lengths as of translated captions: 5 to 50 tokens, the sides much alike."""
    rng = np.random.default_rng(seed)
    source = np.clip(rng.gamma(8, 1.8, n).astype(int), 3, 50)
    target = np.clip(source + rng.integers(-3, 4, n), 1, 56)
    return EncodedSet([[3] * k for k in source], [[4] * k for k in target])


def epoch(order: ByTokens, number: int = 0) -> list[list[int]]:
    first = number * int(order.per_epoch())
    return [order.batch(first + place)[1] for place in range(int(order.per_epoch()))]


@pytest.mark.parametrize("world", range(1, 9))
@pytest.mark.parametrize("n", [1, 5, 97, 1000])
def test_every_pair_once_an_epoch_on_equally_many_batches(n: int, world: int) -> None:
    """Two epochs of each of the ranks, taken one after another: none waits for another, none has more."""
    made = captions(n)
    batches = int(ByTokens(made, 256, 0, world).per_epoch())
    for number in range(2):
        taken: list[list[tuple[int, ...]]] = []
        for rank in range(world):
            plans = TrainingPlans(
                ByTokens(made, 256, 0, world), made.target_lengths + 1, Share(rank, world), number * batches
            )
            taken.append([plan.rows for plan in islice(plans, batches)])
        rows = Counter(row for share in taken for rows in share for row in rows if row != FILLER)
        assert rows == Counter(range(n))
        assert {len(share) for share in taken} == {batches} and all(rows for share in taken for rows in share)


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("most", [None, 7])
def test_no_device_gets_more_than_the_budget(world: int, most: int | None) -> None:
    made = captions(500)
    order = ByTokens(made, 256, 0, world, most=most)
    sizes = []
    for rows in epoch(order):
        assert most is None or len(rows) <= most
        for rank in range(world):
            share = [row for row in Share(rank, world).of(rows) if row != FILLER]
            longest = max((max(made.source_lengths[row] + 2, made.target_lengths[row] + 1) for row in share), default=0)
            assert len(share) * longest <= 256
            sizes.append(len(share) * longest)
    if most is None:
        assert np.mean(sizes) > 220  # batches are full


def test_lengths_count_what_stands_around_a_pair() -> None:
    made = EncodedSet([[3] * 10] * 6, [[4] * 3] * 6)
    assert [len(rows) for rows in epoch(ByTokens(made, 24, 0))] == [2, 2, 2]
    assert [len(rows) for rows in epoch(ByTokens(made, 23, 0))] == [1] * 6
    assert [len(rows) for rows in epoch(ByTokens(made, 22, 0, frame=Frame(bos=False)))] == [2, 2, 2]


def test_little_is_padding() -> None:
    made = captions(29000)
    order = ByTokens(made, 1536, 0)
    area = tokens = 0
    batches = Batches(made)
    for plan in islice(TrainingPlans(order, made.target_lengths + 1, Share()), int(order.per_epoch())):
        batch = batches[plan]
        area += batch.source.numel() + batch.target.numel()
        tokens += int(batch.source.ne(0).sum() + batch.target.ne(0).sum())
    assert 1 - tokens / area == pytest.approx(order.padding())
    assert order.padding() < 0.05


def test_epochs_differ_in_ties_and_order_and_repeat_by_seed() -> None:
    made = captions(500)
    order = ByTokens(made, 256, 0)
    one, other = epoch(order, 0), epoch(order, 1)
    assert {frozenset(rows) for rows in one} != {frozenset(rows) for rows in other}
    assert [len(rows) for rows in one] != [len(rows) for rows in other]
    assert sorted(len(rows) for rows in one) == sorted(len(rows) for rows in other)
    assert epoch(ByTokens(made, 256, 0), 1) == other != epoch(ByTokens(made, 256, 1), 1)


def test_a_stream_continues_where_it_is_told() -> None:
    made = captions(300)
    labels = made.target_lengths + 1
    whole = list(islice(TrainingPlans(ByTokens(made, 256, 0, 2), labels, Share(1, 2, 2)), 90))
    for start in (2, 38, 60):
        rest = list(islice(TrainingPlans(ByTokens(made, 256, 0, 2), labels, Share(1, 2, 2), start), 90 - start))
        assert rest == whole[start:]


@pytest.mark.parametrize("world", [1, 3])
def test_evaluation_keeps_the_budget_but_for_what_is_longer_than_it(world: int) -> None:
    made = captions(200)
    plans = [EvaluationPlans(made, 50, Share(rank, world), 40) for rank in range(world)]
    rows = [row for share in plans for plan in share for row in plan.rows if row != FILLER]
    assert sorted(rows) == list(range(200))
    assert len({len(share) for share in plans}) == 1
    for plan in (plan for share in plans for plan in share):
        longest = max(max(made.source_lengths[max(r, 0)] + 2, made.target_lengths[max(r, 0)] + 1) for r in plan.rows)
        assert len(plan.rows) * longest <= 40 or len(plan.rows) == 1
