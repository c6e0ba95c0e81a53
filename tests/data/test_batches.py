"""Evaluation plans and batches as tensors: each example once, fillers, padding, where BOS and EOS stand."""

from itertools import pairwise

import pytest
import torch
from torch.utils.data import DataLoader

from relformer.data.batching import FILLER, Batches, Frame, Plan, padded
from relformer.data.datamodule import same
from relformer.data.encoded import EncodedSet
from relformer.data.planning import ByNumber, EvaluationPlans, Share, TrainingPlans
from relformer.data.vocabulary import BOS, EOS, PAD


def examples(n: int) -> EncodedSet:
    targets = [[3 + (row + place) % 7 for place in range(row * 5 % 9)] for row in range(n)]
    return EncodedSet([target[::-1] for target in targets], targets)


@pytest.mark.parametrize("world", [1, 2, 3, 4])
@pytest.mark.parametrize(("n", "size"), [(1, 4), (13, 4), (12, 4), (9, 4), (14, 3), (3, 2), (5, 100)])
def test_evaluation_covers_every_example_once_on_equally_many_batches(n: int, size: int, world: int) -> None:
    plans = [list(EvaluationPlans(examples(n), size, Share(rank, world))) for rank in range(world)]
    taken = [row for share in plans for plan in share for row in plan.rows]
    assert sorted(row for row in taken if row != FILLER) == list(range(n))
    assert (
        {len(share) for share in plans} == {-(-n // size)} == {len(EvaluationPlans(examples(n), size, Share(0, world)))}
    )
    for plan in (plan for share in plans for plan in share):
        assert 1 <= len(plan.rows) <= size
        assert FILLER not in plan.rows or plan.rows == (FILLER,)


def test_a_rank_without_examples_gets_a_filler() -> None:
    plans = [list(EvaluationPlans(examples(9), 4, Share(rank, 2))) for rank in range(2)]
    assert [len(plan.rows) for plan in plans[0]] == [2, 2, 1]
    assert [plan.rows == (FILLER,) for plan in plans[1]] == [False, False, True]


def test_neighbours_in_length_share_a_batch() -> None:
    made = examples(30)
    spans = []
    for plan in EvaluationPlans(made, 6, Share()):
        lengths = [len(made.targets[row]) for row in plan.rows]
        spans.append((min(lengths), max(lengths)))
    assert all(one[1] <= other[0] for one, other in pairwise(spans))


def test_a_filler_is_marked_in_its_batch() -> None:
    batch = Batches(examples(4))[Plan((FILLER,))]
    assert batch.index.tolist() == [FILLER]
    assert batch.source.shape[0] == batch.target.shape[0] == 1
    assert batch.labels.tolist() == [[PAD]]  # nothing to learn from


def test_where_begin_and_end_stand() -> None:
    made = EncodedSet([[7, 8, 9], [5]], [[9, 8, 7], [5]])
    batch = Batches(made)[Plan((1, 0), tokens=6.0)]
    assert batch.index.tolist() == [1, 0]
    assert batch.source.tolist() == [[BOS, 5, EOS, PAD, PAD], [BOS, 7, 8, 9, EOS]]
    assert batch.target.tolist() == [[BOS, 5, PAD, PAD], [BOS, 9, 8, 7]]
    assert batch.labels.tolist() == [[5, EOS, PAD, PAD], [9, 8, 7, EOS]]
    assert batch.tokens == 6.0


def test_without_eos_a_target_ends_with_its_last_token() -> None:
    made = EncodedSet([[7, 8, 9], [5]], [[9, 8, 7], [5]])
    batch = Batches(made, Frame(bos=False, eos=False))[Plan((1, 0))]
    assert batch.source.tolist() == [[5, EOS, PAD, PAD], [7, 8, 9, EOS]]
    assert batch.target.tolist() == [[BOS, PAD, PAD], [BOS, 9, 8]]
    assert batch.labels.tolist() == [[5, PAD, PAD], [9, 8, 7]]


def test_given_positions_are_framed_and_go_on_through_the_padding() -> None:
    made = EncodedSet([[7, 8, 9], [5]], [[9, 8, 7], [5]], positions=[[1, 4, 9], [3]])
    batch = Batches(made)[Plan((1, 0))]
    assert batch.positions is not None
    assert batch.positions.tolist() == [[0, 4, 5, 6, 7], [0, 2, 5, 10, 11]]


def test_a_target_predicts_its_labels_one_step_later() -> None:
    made = examples(20)
    batch = Batches(made)[Plan(tuple(range(20)))]
    real = batch.labels != PAD
    assert (batch.target[:, 1:] == batch.labels[:, :-1].masked_fill(batch.labels[:, :-1] == EOS, PAD)).all()
    assert (batch.target[:, 0] == BOS).all()
    assert real.sum(1).tolist() == [len(target) + 1 for target in made.targets]
    assert (batch.labels.gather(1, real.sum(1, keepdim=True) - 1) == EOS).all()
    assert ((batch.target != PAD) == real).all()


def test_padding_is_on_the_right_and_no_wider_than_needed() -> None:
    rows = padded([[3], [3, 4, 5], [3, 4]])
    assert rows.dtype == torch.int64
    assert rows.tolist() == [[3, PAD, PAD], [3, 4, 5], [3, 4, PAD]]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_yields_the_batches_of_its_plans_in_order(workers: int) -> None:
    made = examples(20)
    plans = TrainingPlans(ByNumber(made, 6, 0), made.target_lengths + 1, Share(1, 2))
    loader = DataLoader(Batches(made), batch_size=None, sampler=plans, collate_fn=same, num_workers=workers)
    for number, (plan, batch) in enumerate(zip(plans, loader, strict=False)):
        assert batch.index.tolist() == list(plan.rows)
        assert batch.tokens == plan.tokens
        if number == 5:
            break
