"""Running the command line as a user does: a process of its own, in a directory of its own."""

import contextlib
import csv
import io
import json
import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from relformer.cli import main
from tests.forks import ROOT, Forked

TINY = (
    "data=reverse",
    "data.examples=600",
    "data.examples_per_length=20",
    "trainer.accelerator=cpu",
    "trainer.log_every_n_steps=1",
)
"""Overrides of a run of seconds. Data of lengths 1 to 10 and 13 to 20 all the same."""
FIGURES = ("bias_heatmaps", "bias_profiles", "head_figures", "receptive_field", "attention_maps", "length_curve")
WITHOUT_FIGURES = tuple(f"callbacks.{name}=null" for name in (*FIGURES, "figure_cost"))


@dataclass(frozen=True)
class Ended:
    """A process that ended."""

    code: int
    out: str
    error: str

    def succeeded(self) -> "Ended":
        assert self.code == 0, self.out + self.error
        return self


def environment(**more: str) -> dict[str, str]:
    """Without account, rank or sweep of whoever runs the tests."""
    mine = ("WANDB_", "SLURM_", "TORCHELASTIC_", "RELFORMER_", "HYDRA_")
    ranks = ("LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "RANK", "NETRC", "COLUMNS")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(mine) and key not in ranks}
    kept |= {key: value for key, value in os.environ.items() if key == "RELFORMER_CACHE"}
    return kept | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **more}


def relformer(*arguments: str, cwd: Path, env: Mapping[str, str] | None = None, script: bool = False) -> Ended:
    """`python train.py ...` where `script`, else `python -m relformer ...`."""
    home = cwd.parent / f"{cwd.name}-home"
    home.mkdir(exist_ok=True)
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    full = environment(HOME=str(home)) | ({} if script else {"PYTHONPATH": path}) | dict(env or {})
    with tempfile.TemporaryDirectory() as said:
        out, error = Path(said, "out"), Path(said, "error")
        process = Forked(arguments, cwd, full, out, error, script)
        try:
            return Ended(process.wait(), out.read_text(), error.read_text())
        except BaseException:
            os.kill(process.pid, signal.SIGKILL)
            raise


def here(*arguments: str, cwd: Path) -> Ended:
    """The same in this process: enough where nothing is started."""
    out, error, code = io.StringIO(), io.StringIO(), 0
    with (
        contextlib.chdir(cwd),
        mock.patch.object(sys, "argv", ["relformer", *arguments]),
        mock.patch("relformer.cli.flush_denormals"),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(error),
    ):
        try:
            main()
        except SystemExit as end:
            assert isinstance(end.code, int)
            code = end.code
    return Ended(code, out.getvalue(), error.getvalue())


def refused(*arguments: str, cwd: Path) -> str:
    """What is said of a fault, in one sentence with exit code 2 and without a traceback."""
    ended = here(*arguments, cwd=cwd)
    assert ended.code == 2, ended
    assert ended.error.count("error:") == 1 and "Traceback" not in ended.error, ended.error
    return ended.error


def run_directories(log_dir: Path) -> list[Path]:
    """Whatever holds a checkpoint, below a folder."""
    return sorted({path.parent.parent for path in log_dir.glob("**/checkpoints/*.ckpt")})


def metrics(run: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((run / "metrics.json").read_text())
    return content


def results(run: Path) -> dict[str, Any]:
    """The figures alone, of every checkpoint and set."""
    content: dict[str, Any] = metrics(run)["checkpoints"]
    return content


def losses(run: Path) -> dict[int, str]:
    """Training loss by step, as it is written; where a step was trained twice, the last."""
    with (run / "csv" / "metrics.csv").open(newline="") as file:
        return {int(row["step"]): row["train/loss"] for row in csv.DictReader(file) if row["train/loss"]}


def content(directory: Path) -> dict[str, bytes]:
    """Every file below a directory, to see that nothing changed."""
    return {str(p.relative_to(directory)): p.read_bytes() for p in directory.rglob("*") if p.is_file()}


def corpus_figures(results: Mapping[str, Any]) -> dict[tuple[str, str, str], float]:
    """Of all lengths together: (checkpoint, set, figure) -> value."""
    return {
        (checkpoint, name, key): value
        for checkpoint, sets in results.items()
        for name, figures in sets.items()
        if isinstance(figures, dict)
        for key, value in figures.items()
        if key != "by_length"
    }
