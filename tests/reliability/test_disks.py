"""Disks that are read-only, full, or too small."""

import contextlib
import csv
import errno
import io
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from relformer.cli import main
from relformer.errors import UserError
from relformer.training import disk as disk_module
from relformer.training.callbacks.best_checkpoint import BestCheckpoint
from relformer.training.disk import checkpoint_bytes, made_writable, room_warning, spared
from relformer.training.loggers import build_loggers
from tests.cli.runs import metrics, relformer
from tests.reliability.disks import disk, fill, read_only  # noqa: F401  fixtures
from tests.reliability.small import FAST

DATA = ("data=reverse", "data.examples=200", "data.examples_per_length=4")


@pytest.fixture(autouse=True)
def untold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_module, "_told", set())


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., str]:
    """What the command line says of options with which nothing begins."""

    def refuse(*options: str) -> str:
        monkeypatch.setattr(sys, "argv", ["train.py", *DATA, *FAST, *options])
        monkeypatch.chdir(tmp_path)
        error = io.StringIO()
        with pytest.raises(SystemExit) as end, contextlib.redirect_stderr(error):
            main()
        assert end.value.code == 2 and "Traceback" not in error.getvalue()
        return error.getvalue()

    return refuse


@pytest.mark.parametrize("override", ["paths.log_dir={}/runs", "hydra.run.dir={}", "hydra.run.dir={}/a/b"])
def test_a_read_only_disk_is_found_before_anything_is_read(
    read_only: Path,  # noqa: F811
    refused: Callable[..., str],
    override: str,
) -> None:
    assert "Read-only file system; set paths.log_dir" in refused(override.format(read_only))
    assert not list(read_only.iterdir())


def test_a_full_disk_is_found_before_step_0(disk: Path, refused: Callable[..., str]) -> None:  # noqa: F811
    filler = fill(disk)
    assert "No space left on device" in refused(f"hydra.run.dir={disk}/runs/mine")
    assert list(disk.iterdir()) == [filler]


def test_wandb_on_a_full_disk_is_found_before_step_0(
    disk: Path,  # noqa: F811
    tmp_path: Path,
    refused: Callable[..., str],
) -> None:
    fill(disk)
    more = ("logger=wandb", "logger.mode=offline", f"paths.log_dir={disk}", f"hydra.run.dir={tmp_path}/run")
    assert "No space left on device" in refused(*more)


@pytest.mark.parametrize("error", [errno.EROFS, errno.ENOSPC, errno.EACCES])
def test_what_the_probe_meets_is_said_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    def failing(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(UserError, match=rf"can't be .*written: {os.strerror(error)}; set paths.log_dir"):
        made_writable(tmp_path / "a" / "b")
    assert not list(tmp_path.iterdir())
    monkeypatch.undo()
    made_writable(tmp_path / "a" / "b")
    assert not list((tmp_path / "a" / "b").iterdir())


def test_too_little_room_for_the_checkpoints_is_said(tmp_path: Path) -> None:
    callbacks = [BestCheckpoint("best.ckpt"), ModelCheckpoint(save_top_k=5, save_weights_only=True, monitor="step")]
    millions = 10**6
    assert checkpoint_bytes(millions, callbacks) == 4 * millions * (3 + 5 + 2 * 3)
    assert room_warning(tmp_path, millions, callbacks) == []
    (said,) = room_warning(tmp_path, 10**14, callbacks)
    assert said.startswith("warning: the checkpoints need about 5.09e+03 TiB") and str(tmp_path) in said


def test_a_checkpoint_is_as_large_as_it_is_estimated(trained: Path) -> None:
    """Within a few per cent, of a model of 170,000 parameters."""
    path = trained / "checkpoints" / "last.ckpt"
    content = torch.load(path, weights_only=True)
    parameters = sum(value.numel() for value in content["state_dict"].values())
    assert 0.9 < (checkpoint_bytes(parameters, []) / 2) / path.stat().st_size < 1.1


def test_a_run_whose_logs_find_no_room_goes_on(disk: Path, tmp_path: Path) -> None:  # noqa: F811
    """Figures, W&B's folder and the heads' table are on a disk that is full from the first of them on."""
    overrides = [each for each in FAST if not each.startswith(("callbacks.bias", "callbacks.head", "logger"))]
    ended = relformer(
        *(*DATA, *overrides, "logger=wandb", "logger.mode=offline", f"paths.log_dir={disk}"),
        f"hydra.run.dir={tmp_path}/run",
        *(f"callbacks.bias_heatmaps.directory={disk}/full/a", f"callbacks.head_figures.path={disk}/full/b.csv"),
        f"callbacks.length_curve.directory={disk}/full/c",
        "+callbacks.filler._target_=tests.reliability.poison.Fills",
        f"+callbacks.filler.folder={disk}",
        cwd=tmp_path,
    )
    assert ended.code == 0, ended.error
    assert metrics(tmp_path / "run")["checkpoints"]["last"]["step"] == 8
    for name in ("bias_heatmaps", "head_figures", "length_curve"):
        said = f"warning: callbacks.{name} can't be written (No space left on device); training goes on without"
        assert ended.out.count(said) == 1, name


def test_rows_the_disk_does_not_take_are_written_later(disk: Path, caplog: pytest.LogCaptureFixture) -> None:  # noqa: F811
    log = build_csv(disk)
    log.log_metrics({"loss": 1.0}, step=0)
    filler = fill(disk)
    before = (disk / "csv" / "metrics.csv").read_text()
    for step in range(1, 600):
        log.log_metrics({"loss": 1 / step, **({"new": 1.0} if step > 300 else {})}, step=step)
    middle = (disk / "csv" / "metrics.csv").read_text()
    assert middle.startswith(before) and middle.endswith("\n")
    assert sum("can't be written (No space left on device)" in record.message for record in caplog.records) == 1
    filler.unlink()
    log.log_metrics({"loss": 0.5}, step=600)
    with (disk / "csv" / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == list(range(601))
    assert all((row["new"] == "1.0") == (300 < int(row["step"]) < 600) for row in rows)


def build_csv(folder: Path) -> Any:
    options: dict[str, Any] = {"name": "n", "group": None, "config": {}, "tags": []}
    return build_loggers({"name": "csv"}, folder, folder, **options)[0]


def test_only_the_disk_is_spared(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        with spared("a figure"):
            raise OSError(errno.ENOSPC, "No space left on device")
    assert len(caplog.records) == 1
    with pytest.raises(ValueError), spared("a figure"):
        raise ValueError


@pytest.mark.parametrize(
    ("arguments", "written"),
    [
        (("evaluate", "{run}", "data.examples_per_length=1"), "evaluations/"),
        (("export", "{run}", "to={disk}/out"), "out/model.safetensors"),
        (("compare", "{run}", "html={disk}/x.html"), "x.html"),
        (("figure", "curve", "{run}", "out={disk}/x.pdf"), "x.pdf"),
    ],
)
def test_a_command_on_a_full_disk_says_so_and_leaves_nothing(
    disk: Path,  # noqa: F811
    trained: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    written: str,
) -> None:
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    (run / "evaluations").symlink_to(disk)
    filler = fill(disk)
    monkeypatch.setattr(sys, "argv", ["relformer", *(each.format(run=run, disk=disk) for each in arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    error = capsys.readouterr().err.splitlines()[-1]
    assert end.value.code == 1 and error.startswith("error: ") and written.partition("/")[2] in error
    assert error.endswith("can't be written: No space left on device; make room, then try again")
    assert [path for path in disk.rglob("*") if path.is_file()] == [filler]
