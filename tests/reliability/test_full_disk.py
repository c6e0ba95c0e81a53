"""A disk that fills up while a run trains: a small one of its own, in memory. Linux, as root. A minute."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from relformer.training.sealing import BEST, LAST, damage, good_ones
from tests.reliability.processes import Started
from tests.reliability.tiny import TINY, rows, state, unequal

pytestmark = pytest.mark.slow

RUN = (*TINY, "trainer.max_steps=12")


def mounted(place: Path, size: str, *options: str) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", ",".join((*options, f"size={size}")), "tmpfs", str(place)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Room for two checkpoints of the run, and for a part of a third."""
    place = tmp_path / "disk"
    place.mkdir()
    if not mounted(place, "560k"):
        pytest.skip("a disk can't be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("devices", [1, 2])
def test_a_run_on_a_full_disk_ends_with_its_checkpoint_whole(tmp_path: Path, disk: Path, devices: int) -> None:
    options = (*RUN, f"trainer.devices={devices}")
    ended = Started(*options, f"hydra.run.dir={disk / 'run'}", cwd=tmp_path).ended()
    assert ended.code == 1
    said = [line for line in ended.out.splitlines() if line.startswith("error: ")]
    assert len(said) == 1 and "was not written" in said[0] and "No space left on device" in said[0]
    assert "then go on with resume=auto" in said[0]
    assert devices == 2 or "Traceback" not in ended.out
    assert damage(disk / "run" / "checkpoints" / LAST) is None
    assert not list(disk.rglob("*.tmp*"))

    assert mounted(disk, "20m", "remount")
    Started(*options, f"hydra.run.dir={disk / 'run'}", "resume=auto", cwd=tmp_path).ended().succeeded()
    Started(*options, f"hydra.run.dir={tmp_path / 'whole'}", cwd=tmp_path).ended().succeeded()
    assert unequal(rows(disk / "run"), rows(tmp_path / "whole")) == []
    for name in (LAST, BEST):
        ends = [state(place / "checkpoints" / name) for place in (disk / "run", tmp_path / "whole")]
        assert unequal(*ends) == []


def test_a_run_may_go_on_without_its_checkpoints(tmp_path: Path, disk: Path) -> None:
    ended = Started(*RUN, f"hydra.run.dir={disk / 'run'}", "on_full=go_on", cwd=tmp_path).ended()
    assert "training goes on without it, since on_full=go_on" in ended.out
    assert "step    12/12" in ended.out
    assert good_ones(disk / "run" / "checkpoints")
