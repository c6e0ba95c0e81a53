"""Threads: the cores are shared out, and what the user or SLURM has settled stands."""

import os
from collections.abc import Iterator

import pytest
import torch

from relformer.training.threads import VARIABLE, share_cores


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Eight threads, as torch takes them on eight cores where nobody has set anything."""
    for name in (VARIABLE, "SLURM_CPUS_PER_TASK"):
        monkeypatch.setenv(name, "")  # so that what is set below is undone
        monkeypatch.delenv(name)
    before = torch.get_num_threads()
    torch.set_num_threads(8)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("processes", "share"), [(1, 8), (2, 4), (3, 2), (16, 1)])
def test_processes_share_the_cores(processes: int, share: int) -> None:
    share_cores(processes, None)
    assert torch.get_num_threads() == share
    assert os.environ.get(VARIABLE) == (str(share) if processes > 1 else None)
    share_cores(processes, None)  # as a rank that was started with the variable
    assert torch.get_num_threads() == share


def test_what_is_settled_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "5")
    share_cores(4, None)
    assert torch.get_num_threads() == 5
    monkeypatch.setenv(VARIABLE, "3")
    torch.set_num_threads(3)  # torch reads the variable when it is imported
    share_cores(4, None)
    assert torch.get_num_threads() == 3
    share_cores(4, 6)
    assert torch.get_num_threads() == 6 and os.environ[VARIABLE] == "6"
