"""Jobs side by side: GPUs by place, and the cores divided."""

from pathlib import Path

import pytest
import torch

from relformer.errors import UserError
from relformer.sweeps.job import Job
from relformer.sweeps.sharing import Share
from tests.config.composed import composed


def job(devices: int | str = 1, cpu: bool = False) -> Job:
    return Job(0, [], [], Path("run"), "key", "val/iid/loss", devices=devices, cpu=cpu)


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four GPUs that are not the first ones, and 12 cores."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3,6,7")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 12)


def visible(places: int, place: int, devices: int) -> str:
    return Share(places, composed()).variables(place, job(devices))["CUDA_VISIBLE_DEVICES"]


def test_places_have_gpus_of_their_own() -> None:
    assert [visible(4, place, 1) for place in range(4)] == ["2", "3", "6", "7"]
    assert [visible(2, place, 2) for place in range(2)] == ["2,3", "6,7"]
    assert [visible(3, place, 2) for place in range(3)] == ["2,3", "6,7", "2,3"]  # too few for all
    assert visible(2, 1, 8) == "2,3,6,7"  # it says itself that there are no eight


def test_every_gpu_leaves_none_for_another() -> None:
    with pytest.raises(UserError, match=r"trainer\.devices=auto takes every GPU"):
        Share(2, composed()).variables(0, job("auto"))


def test_cores_are_divided_among_jobs_and_their_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    def threads(*overrides: str, devices: int = 1) -> str | None:
        return Share(2, composed(*overrides)).variables(0, job(devices, cpu=True)).get("OMP_NUM_THREADS")

    assert (threads(), threads(devices=3), threads(devices=20)) == ("6", "2", "1")
    assert threads("hardware.threads=5") is None
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert threads() is None


def test_one_at_a_time_has_the_machine() -> None:
    assert Share(1, composed()).variables(0, job("auto")) == {}
