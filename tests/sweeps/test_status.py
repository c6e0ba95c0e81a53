"""What has become of a sweep's jobs, as its files and locks tell."""

import json
from pathlib import Path

import pytest

from relformer.errors import UserError
from relformer.sweeps.job import Job, now
from relformer.sweeps.record import Record, read_record
from relformer.sweeps.status import print_status, row, sweep_command
from tests.reliability.locks import locked


def job(home: Path, number: int, **options: object) -> Job:
    made = Job(number, ["a=1", f"seed={number}"], [f"seed={number}"], home / f"{number}_run", "key", "val/iid/loss", 9)
    for name, value in options.items():
        setattr(made, name, value)
    return made


def finish(made: Job, loss: float) -> None:
    made.directory.mkdir(parents=True)
    figures = {"last": {"step": 9, "val_iid": {"loss": loss}}}
    (made.directory / "metrics.json").write_text(json.dumps({"checkpoint": "last", "checkpoints": figures}))
    (made.directory / "run_key").write_text("key\n")


def test_every_state_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    home = tmp_path / "sweep"
    home.mkdir()
    begun = {"started": now() - 7}
    jobs = [
        job(home, 0, **begun, seconds=5.0, exit_code=0),
        job(home, 1, **begun, seconds=2.0, exit_code=2),
        job(home, 2, **begun, seconds=2.0, exit_code=-9),
        job(home, 3, **begun, seconds=2.0, exit_code=143),
        job(home, 4, **begun),
        job(home, 5),
    ]
    finish(jobs[0], 0.25)
    (jobs[4].directory / "csv").mkdir(parents=True)
    (jobs[4].directory / "csv" / "metrics.csv").write_text("step,train/loss\n3,1.5\n")
    Record(home, jobs).write()
    others = ["finished", "failed (2)", "killed (SIGKILL)", "killed (SIGTERM)"]
    states = [each.state(True, False) for each in read_record(home)]
    assert states == [*others, "running", "waiting"]
    assert [each.state(False, False) for each in read_record(home)] == [*others, "killed", "waiting"]
    with locked(home):
        print_status(tmp_path)
    said = capsys.readouterr().out
    assert "1 finished, 1 failed, 2 killed, 1 running, 1 waiting" in said
    for text in ("9 of 9", "val/iid/loss 0.2500", "3 of 9", "seed=1", "5_run"):
        assert text in said
    with locked(jobs[4].directory):  # a job of a cluster outlives the process that submitted it
        print_status(home)
    assert "1 running" in capsys.readouterr().out
    print_status(home)
    assert "3 killed" in capsys.readouterr().out
    assert row(jobs[4], "running")[5] in ("7", "8", "9", "10", "11", "12")


def test_jobs_of_earlier_commands_stay(tmp_path: Path) -> None:
    """A longer list adds to a directory; a moved one is still read."""
    home = tmp_path / "old"
    home.mkdir()
    Record(home, [job(home, 0), job(home, 1, exit_code=1)]).write()
    Record(home, [job(home, 1), job(home, 2)]).write()
    home.rename(tmp_path / "new")
    found = read_record(tmp_path / "new")
    assert [(each.number, each.exit_code) for each in found] == [(0, None), (1, None), (2, None)]
    assert found[0].directory == tmp_path / "new" / "0_run"


def test_secrets_are_masked(tmp_path: Path) -> None:
    Record(tmp_path, [job(tmp_path, 0, overrides=["+logger.api_key=abcdefgh"])]).write()
    assert "abcdefgh" not in (tmp_path / "sweep.json").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [([], "has one command"), (["status", "."], "no sweep in"), (["stop", "x"], "one command")],
)
def test_no_sweep_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message):
        sweep_command(arguments)
    (tmp_path / "sweep.json").write_text("{")
    with pytest.raises(UserError, match="is not the record of a sweep"):
        read_record(tmp_path)
