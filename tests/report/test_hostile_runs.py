"""Files of a run that are damaged or not what a run writes: one sentence with their name, no traceback, no wait."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from relformer.errors import UserError
from relformer.evaluation.groups import find_runs, group_runs
from relformer.report.reading import find_runs as find_logs

METRICS = {
    "cut off": '{"checkpoints": {"la',
    "null": "null",
    "no figures": '{"checkpoint": "last", "checkpoints": {"last": {"test_iid": "x"}}, "config": {"seed": 0}}',
    "a text": '{"checkpoint": "last", "checkpoints": "last", "config": {"seed": 0}}',
    "deep": "[" * 100_000,
}
SETTINGS = {
    "code": "a: !!python/object/apply:os.system ['touch made']",
    "a list": "[1, 2]",
    "no YAML": "a: [",
    "bytes": b"\xff\xfe\x00",
}
LOGS = {"bytes": b"step,train/loss\n\xff\xfe,1\n", "a cell without end": b'step,"' + b"x" * 200_000}


def made(folder: Path, **files: str | bytes) -> Path:
    for name, content in {"csv/metrics.csv": "step,train/loss\n1,2.5\n", **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def refused(folder: Path, name: str) -> None:
    with pytest.raises(UserError, match=r" is not the \w+.* of a run \(") as fault:
        find_logs(folder)
    assert str(fault.value).startswith(str(folder / name)) and len(str(fault.value)) < 500


@pytest.mark.parametrize("kind", METRICS)
def test_figures(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A comparison says which run it leaves out, and that none is left."""
    refused(made(tmp_path, **{"metrics.json": METRICS[kind]}), "metrics.json")
    with pytest.raises(UserError, match=r"^no metrics.json of a run among "):
        group_runs(find_runs([str(tmp_path)]))
    assert f"{tmp_path / 'metrics.json'} is left out" in capsys.readouterr().err


@pytest.mark.parametrize("kind", SETTINGS)
def test_settings(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused(made(tmp_path / "run", **{".hydra/config.yaml": SETTINGS[kind]}), ".hydra/config.yaml")
    assert os.listdir(tmp_path) == ["run"]


@pytest.mark.parametrize("kind", LOGS)
def test_log(tmp_path: Path, kind: str) -> None:
    refused(made(tmp_path, **{"csv/metrics.csv": LOGS[kind]}), "csv/metrics.csv")


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
def test_what_is_no_file_is_not_there(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """A pipe would be waited for."""
    (tmp_path / ".hydra").mkdir()
    for name in ("metrics.json", ".hydra/config.yaml"):
        make(tmp_path / name)
    (run,) = find_logs(made(tmp_path))
    assert run.metrics is None and run.settings == {}
    with pytest.raises(UserError, match=r"no finished run"):
        find_runs([str(tmp_path)])
