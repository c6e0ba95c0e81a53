"""Peaks of calls whose memory is known."""

import os

import pytest
import torch

from relformer.benchmark.memory import peak
from relformer.errors import UserError

CPU = torch.device("cpu")
MIB = 2**18
"""Floats in 2^20 bytes."""


@pytest.mark.parametrize("left", [False, True])
def test_the_peak_counts_what_lives_at_one_time(left: bool) -> None:
    """Whether or not the heap already has free blocks, into which some of the call's would fit."""

    def call() -> None:
        one = torch.ones(20 * MIB)
        del one
        torch.ones(10 * MIB) + torch.ones(10 * MIB)

    if left:
        del (large := [torch.ones(30 * MIB)])[0]  # from here on malloc takes blocks of that size from the heap
        large += [torch.ones(size * MIB // 4) for size in (96, 1, 48, 1)]
        del large[0], large[1]
    assert peak(call, CPU) == pytest.approx(30, abs=2)


def test_what_was_there_before_and_what_a_call_leaves_count_nowhere() -> None:
    kept = torch.ones(40 * MIB)
    assert peak(lambda: kept.add_(1), CPU) < 2
    assert kept[0] == 1  # it ran in another process


def test_a_call_that_dies_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError, match="exit code 1"):
        peak(lambda: 1 / 0, CPU)
    assert "ZeroDivisionError" in capfd.readouterr().err
    with pytest.raises(UserError, match="not enough memory"):
        peak(lambda: os.kill(os.getpid(), 9), CPU)


def test_a_device_that_tells_nothing() -> None:
    with pytest.raises(UserError, match="peak memory can't be read on meta"):
        peak(lambda: None, torch.device("meta"))
