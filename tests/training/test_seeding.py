"""Generators are seeded as torch does it, but for the devices that are not used."""

import torch

from relformer.seeding import seed_generators


def test_a_seed_gives_the_numbers_that_torch_gives() -> None:
    seed_generators(11, torch.device("cpu"))
    ours = torch.rand(5)
    torch.manual_seed(11)
    assert torch.equal(ours, torch.rand(5))


def test_nothing_is_kept_of_a_call() -> None:
    queued = len(torch.cuda._queued_calls)
    seed_generators(1)
    assert len(torch.cuda._queued_calls) == queued
