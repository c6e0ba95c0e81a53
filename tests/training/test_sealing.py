"""What a damaged checkpoint is known by, what stands in for it, and what a failed write leaves."""

import errno
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from relformer import faults, files
from relformer.errors import RunError, UserError
from relformer.files import remove_leftovers, replacing, write_text
from relformer.training.checkpoint import AtomicCheckpointIO
from relformer.training.resume import Start, where_to_start
from relformer.training.sealing import damage, good_ones, read_step, refuse_damaged


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    faults.arm(None)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run directory with the checkpoints of steps 3 and 6, the best of step 4."""
    writer = AtomicCheckpointIO()
    for name, step in (("last", 3), ("best", 4), ("last", 6)):
        writer.save_checkpoint(content(step), tmp_path / "checkpoints" / f"{name}.ckpt")
    return tmp_path


def content(step: int) -> dict[str, object]:
    return {"global_step": step, "weights": torch.arange(20_000) * step, "name": "x" * 100}


def flip(path: Path, place: int) -> None:
    changed = bytearray(path.read_bytes())
    changed[place] ^= 1 << random.Random(place).randrange(8)
    path.write_bytes(changed)


def test_the_one_before_is_kept(run: Path) -> None:
    folder = run / "checkpoints"
    assert {path.name: read_step(path) for path in folder.iterdir()} == {
        "last.ckpt": 6,
        "previous.ckpt": 3,
        "best.ckpt": 4,
    }
    assert [path.name for path in good_ones(folder)] == ["last.ckpt", "best.ckpt", "previous.ckpt"]
    assert where_to_start("auto", run) == Start(folder / "last.ckpt")


def test_a_flipped_bit_is_found_or_changes_nothing(run: Path) -> None:
    """Anywhere in the file; torch.load takes most of them for good."""
    path = run / "checkpoints" / "last.ckpt"
    whole, unnoticed = path.read_bytes(), 0
    for place in random.Random(0).sample(range(len(whole)), 150):
        path.write_bytes(whole)
        flip(path, place)
        if damage(path) is None:
            assert torch.equal(torch.load(path, weights_only=True)["weights"], torch.arange(20_000) * 6)
            unnoticed += 1
    assert unnoticed < 3


@pytest.mark.parametrize("sealed", [True, False])
def test_a_file_cut_off_is_found(run: Path, sealed: bool) -> None:
    path = run / "checkpoints" / "last.ckpt"
    if not sealed:
        torch.save(content(6), path)
    assert damage(path) is None
    whole = path.read_bytes()
    for left in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:left])
        assert damage(path) is not None or torch.load(path, weights_only=True)["global_step"] == 6
    path.write_bytes(whole[: len(whole) // 2])
    assert damage(path) == "it is cut off, or no checkpoint"


def test_a_checkpoint_without_a_seal_has_the_sums_of_its_archive(tmp_path: Path) -> None:
    torch.save(content(6), tmp_path / "last.ckpt")
    assert damage(tmp_path / "last.ckpt") is None
    flip(tmp_path / "last.ckpt", (tmp_path / "last.ckpt").stat().st_size // 2)
    assert torch.load(tmp_path / "last.ckpt", weights_only=True)["global_step"] == 6
    assert str(damage(tmp_path / "last.ckpt")).endswith("is damaged")


def test_the_newest_good_one_stands_in_for_a_damaged_one(run: Path) -> None:
    folder = run / "checkpoints"
    flip(folder / "last.ckpt", 90_000)
    start = where_to_start("auto", run)
    assert start.checkpoint == folder / "best.ckpt"
    (said,) = start.said
    assert (
        said == f"warning: {folder / 'last.ckpt'} is damaged: its SHA-256 is not the one written at its end; not used"
    )
    with pytest.raises(UserError, match=rf"last.ckpt is damaged: .*; {folder / 'best.ckpt'} \(step 4\) is good"):
        refuse_damaged(folder / "last.ckpt")
    (folder / "best.ckpt").unlink()
    assert where_to_start("auto", run).checkpoint == folder / "previous.ckpt"
    flip(folder / "previous.ckpt", 90_000)
    with pytest.raises(UserError, match=r"no checkpoint in .* is good; to start over, choose another") as fault:
        where_to_start("auto", run)
    assert "last.ckpt is damaged" in str(fault.value) and "previous.ckpt is damaged" in str(fault.value)


def test_which_is_newest_is_no_matter_of_the_clock(run: Path) -> None:
    folder = run / "checkpoints"
    (folder / "last.ckpt").unlink()
    for name, time in (("best.ckpt", 1e9), ("previous.ckpt", 2e9)):
        os.utime(folder / name, (time, time))
    assert [path.name for path in good_ones(folder)] == ["best.ckpt", "previous.ckpt"]


def test_a_damaged_one_does_not_become_the_previous_one(run: Path) -> None:
    folder = run / "checkpoints"
    flip(folder / "last.ckpt", 90_000)
    writer = AtomicCheckpointIO()
    writer.save_checkpoint(content(9), folder / "last.ckpt")
    assert [read_step(folder / name) for name in ("last.ckpt", "previous.ckpt")] == [9, 3]
    writer.save_checkpoint(content(12), folder / "last.ckpt")
    assert [read_step(folder / name) for name in ("last.ckpt", "previous.ckpt")] == [12, 9]


def test_without_hard_links_the_one_before_is_kept_as_well(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    AtomicCheckpointIO().save_checkpoint(content(9), run / "checkpoints" / "last.ckpt")
    assert [read_step(run / "checkpoints" / name) for name in ("last.ckpt", "previous.ckpt")] == [9, 6]


def test_checkpoints_that_are_gone_are_no_new_run(run: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(UserError, match="had checkpoints, and they are gone; put them back, or, to start over"):
        where_to_start("auto", run)
    fresh = tmp_path_factory.mktemp("fresh")
    assert "so this run starts at step 0" in where_to_start("auto", fresh).said[0]
    (fresh / "csv").mkdir()
    (fresh / "csv" / "metrics.csv").write_text("step\n")
    assert "stopped before its first checkpoint, so it starts at step 0" in where_to_start("auto", fresh).said[0]


@pytest.mark.parametrize("place", ["checkpoint", "rename"])
def test_a_full_disk_leaves_what_was_there(run: Path, caplog: pytest.LogCaptureFixture, place: str) -> None:
    last = run / "checkpoints" / "last.ckpt"
    before = last.read_bytes()
    faults.arm(f"diskfull@{place}9*2")
    message = r"checkpoint of step 9 was not written to .*: No space left on device; that of step 6 is whole; make room"
    with pytest.raises(RunError, match=message) as fault:
        AtomicCheckpointIO().save_checkpoint(content(9), last)
    assert fault.value.exit_code == 1
    AtomicCheckpointIO("go_on").save_checkpoint(content(9), last)
    assert "training goes on without it" in caplog.text
    assert last.read_bytes() == before and good_ones(run / "checkpoints")[0] == last
    assert not list(run.rglob("*.tmp*"))


def test_a_rename_is_tried_again_where_the_fault_may_pass(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(files.time, "sleep", waited.append)
    last = run / "checkpoints" / "last.ckpt"
    faults.arm("stale@rename9*3")
    AtomicCheckpointIO().save_checkpoint(content(9), last)
    assert read_step(last) == 9 and waited == [0.1, 0.3, 1.0]
    faults.arm("stale@rename12*9")
    with pytest.raises(RunError, match=r"step 12 .*: Stale file handle; that of step 9 is whole; mend that"):
        AtomicCheckpointIO().save_checkpoint(content(12), last)
    assert len(waited) == 3 + len(files.PAUSES) and read_step(last) == 9
    assert not list(run.rglob("*.tmp*"))


def test_a_fault_that_does_not_pass_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def refuse(*_: object) -> None:
        calls.append(1)
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(PermissionError):
        write_text(tmp_path / "file", "text")
    assert calls == [1] and list(tmp_path.iterdir()) == []


def test_leftovers_of_the_dead_are_removed_and_nothing_else(tmp_path: Path) -> None:
    dead = 4_194_305  # beyond the greatest process number of Linux
    ours = [
        tmp_path / "checkpoints" / f".last.{dead}.tmp.ckpt",
        tmp_path / "checkpoints" / f".last.{os.getppid()}.tmp.ckpt",
        tmp_path / f".metrics.{dead}.tmp.json",
    ]
    others = [
        tmp_path / f".report.{os.getppid()}.tmp.html",
        tmp_path / ".mine.tmp",
        tmp_path / "notes.tmp.txt",
        tmp_path / "checkpoints" / "last.ckpt",
    ]
    (tmp_path / "checkpoints").mkdir()
    for path in (*ours, *others):
        path.write_text("")
    assert sorted(remove_leftovers(tmp_path)) == sorted(ours)
    assert all(path.exists() for path in others)
    with replacing(tmp_path / "a.json") as temporary:
        assert files.TEMPORARY.fullmatch(temporary.name)
        temporary.write_text("")


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
def test_what_is_no_file_is_damaged(run: Path, make: Callable[[Path], None]) -> None:
    """A pipe would be waited for."""
    last = run / "checkpoints" / "last.ckpt"
    last.unlink()
    make(last)
    with pytest.raises(UserError, match=r"last.ckpt is damaged: it is no regular file; .*best.ckpt .* is good"):
        refuse_damaged(last)
    assert where_to_start("auto", run).checkpoint == run / "checkpoints" / "best.ckpt"


@pytest.mark.parametrize("error", [errno.EIO, errno.EACCES, errno.ELOOP])
def test_one_that_cannot_be_read_is_damaged(run: Path, monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    last, stat = run / "checkpoints" / "last.ckpt", os.stat

    def failing(path: object, **options: object) -> object:
        if path == last:
            raise OSError(error, os.strerror(error))
        return stat(path, **options)  # type: ignore[call-overload]

    monkeypatch.setattr("relformer.training.sealing.os.stat", failing)
    said = rf"last.ckpt is damaged: it can't be read \({os.strerror(error)}\); .* is good"
    with pytest.raises(UserError, match=said):
        refuse_damaged(last)
    assert good_ones(run / "checkpoints")
