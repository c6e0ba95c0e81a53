"""The stream of training batches: one stream whatever the ranks, every example once an epoch, no stored state."""

from collections import Counter
from itertools import islice

import pytest

from relformer.data.batching import Plan
from relformer.data.encoded import EncodedSet
from relformer.data.planning import ByNumber, Share, TrainingPlans

SIZES = [(23, 5), (24, 4), (7, 7), (5, 12), (1, 3), (10, 1)]
"""Examples and batch size: dividing and not, as large as the set, larger, and the least."""


def examples(n: int) -> EncodedSet:
    """Targets of different lengths, so that no two batches have equally many tokens by chance."""
    return EncodedSet([[5]] * n, [[4] * (1 + row * row % 11) for row in range(n)])


def stream(n: int, size: int, steps: int, share: Share = Share(), start: int = 0, seed: int = 0) -> list[Plan]:  # noqa: B008
    made = examples(n)
    return list(islice(TrainingPlans(ByNumber(made, size, seed), made.target_lengths + 1, share, start), steps))


def rows(plans: list[Plan]) -> list[int]:
    return [row for plan in plans for row in plan.rows]


@pytest.mark.parametrize(("n", "size"), SIZES)
def test_every_example_once_an_epoch(n: int, size: int) -> None:
    epochs = 4 * size
    taken = rows(stream(n, size, epochs * n // size))
    assert len(taken) == epochs * n
    for epoch in range(epochs):
        assert sorted(taken[epoch * n : (epoch + 1) * n]) == list(range(n))


@pytest.mark.parametrize(("n", "size"), SIZES)
def test_no_batch_is_short(n: int, size: int) -> None:
    assert {len(plan.rows) for plan in stream(n, size, 12)} == {size}


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    taken = rows(stream(40, 10, 8))
    assert taken[:40] != taken[40:] and taken[:40] != sorted(taken[:40])
    assert taken == rows(stream(40, 10, 8)) != rows(stream(40, 10, 8, seed=1))


@pytest.mark.parametrize(("n", "size"), [(23, 5), (5, 12), (23, 8)])
@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("accumulate", [1, 3])
def test_ranks_share_the_batches_of_one(n: int, size: int, world: int, accumulate: int) -> None:
    whole = stream(n, size, 9, Share(accumulate=accumulate))
    shares = [stream(n, size, 9, Share(rank, world, accumulate)) for rank in range(world)]
    for number, plan in enumerate(whole):
        parts = [share[number].rows for share in shares]
        assert all(parts)
        assert Counter(row for part in parts for row in part) == Counter(plan.rows)
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("accumulate", [1, 2, 3])
def test_the_loss_is_divided_by_the_tokens_of_the_whole_step(world: int, accumulate: int) -> None:
    """Each rank divides by `tokens`; then ranks and accumulated batches are averaged."""
    made = examples(23)
    shares = [stream(23, 6, 12, Share(rank, world, accumulate)) for rank in range(world)]
    for first in range(0, 12, accumulate):
        step = [share[first + batch] for share in shares for batch in range(accumulate)]
        labels = sum(len(made.targets[row]) + 1 for plan in step for row in plan.rows)
        for plan in step:
            assert plan.tokens * world * accumulate == pytest.approx(labels)
    assert len({plan.tokens for plan in shares[0]}) > 1


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("start", [2, 4, 10])
@pytest.mark.parametrize(("n", "size"), [(23, 5), (5, 12)])
def test_a_stream_continues_where_it_is_told(n: int, size: int, start: int, accumulate: int) -> None:
    share = Share(1, 2, accumulate)
    assert stream(n, size, 8, share, start) == stream(n, size, 8 + start, share)[start:]


def test_accumulated_batches_are_a_larger_batch() -> None:
    """Two batches of 5 hold the rows of one of 10, so that accumulating changes nothing but memory."""
    whole = stream(23, 10, 6)
    halves = stream(23, 5, 12, Share(accumulate=2))
    for step, plan in enumerate(whole):
        assert rows(halves[2 * step : 2 * step + 2]) == list(plan.rows)
