"""`relformer probe`: on a finished run, with its own data or others, and clear words for what is not there."""

import json
import shutil
from pathlib import Path

import pytest

from relformer.errors import UserError
from relformer.training.order_probe import probe_command
from tests.cli.runs import Ended, metrics


@pytest.fixture
def run(trained: tuple[Path, Ended], tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained[0], tmp_path / "reverse" / "run"))


def test_a_run_is_probed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = probe_command([str(run), "set=test_longer", "examples=5000", "distances=2,1"])
    assert [each.change for each in found] == ["shuffled", "reversed", "swapped at distance 1", "swapped at distance 2"]
    (file,) = run.glob("evaluations/*/order.json")
    written = json.loads(file.read_text())
    assert written["set"] == "test_longer" and [c["n"] for c in written["changes"]] == [each.n for each in found]
    longer = metrics(run)["checkpoints"]["last"]["test_longer"]
    assert found[0].n == longer["n"] and found[0].loss_before == pytest.approx(longer["loss"], abs=1e-4)
    said = capsys.readouterr().out
    assert "shuffled" in said and str(file) in said


def test_other_data_than_the_runs_own(run: Path) -> None:
    found = probe_command([str(run), "--set", "test_longer", "data.test.max_length=14", "examples=30", "distances=1"])
    assert found[0].n == 30
    assert len(list(run.glob("evaluations/*/order.json"))) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["set=test_idd"], "no set 'test_idd'; did you mean 'test_iid'"),
        (["distances=0"], "is not a list of whole numbers"),
        (["distances=one"], "is not a list of whole numbers"),
        (["examples=0"], "examples=0 must be at least 1"),
        (["examples=some"], "invalid int value: 'some'"),
        (["encoding=alibi"], "can't change after training"),
    ],
)
def test_a_fault_is_one_sentence(run: Path, arguments: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        probe_command([str(run), *arguments])
    assert not (run / "evaluations").exists()
