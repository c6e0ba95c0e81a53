"""A user's fault: one message, exit code 2, nothing written."""

import sys
from pathlib import Path

import pytest

from relformer.cli import main
from relformer.registry import encodings
from tests.cli.runs import relformer


@pytest.mark.parametrize(
    ("script", "arguments", "message"),
    [
        (True, ["encoding=alibbi"], "error: no encoding 'alibbi'; did you mean 'alibi'?\n  encoding: "),
        (
            False,
            ["data=reverse", "model.heads=5", "loss.label_smoothing=2", "hydra.run.dir=here"],
            "error: loss.label_smoothing=2.0 must lie in [0, 1)\nerror: model.heads=5 does not divide model.width=64",
        ),
    ],
)
def test_a_fault_ends_in_a_message_and_leaves_nothing(
    tmp_path: Path, script: bool, arguments: list[str], message: str
) -> None:
    ended = relformer(*arguments, cwd=tmp_path, script=script)
    assert ended.code == 2
    assert ended.error.startswith(message)
    assert "Traceback" not in ended.error and "Warning" not in ended.error
    assert ended.out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["encode"], "error: no command 'encode'; did you mean 'encodings'?\nusage: relformer [train] [overrides]"),
        (["train", "encoding=alibbi"], "error: no encoding 'alibbi'; did you mean 'alibi'?"),
        (["train", "encoding"], "error: no command 'encoding'"),
        (["evaluate"], "error: evaluate needs a run: relformer evaluate"),
        (["evaluate", "data.seed=1"], "error: evaluate needs a run: relformer evaluate"),
        (["evaluate", "nowhere"], "nowhere does not exist; name a run's folder"),
        (["compare"], "error: compare needs runs"),
        (["compare", "."], "error: no finished run (metrics.json) below .; is training done?"),
    ],
)
def test_every_command_says_what_it_needs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["relformer", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert message in printed.err and printed.err.startswith("error: ") and printed.out == ""
    assert list(tmp_path.iterdir()) == []


def test_all_encodings_are_listed(tmp_path: Path) -> None:
    ended = relformer("encodings", cwd=tmp_path).succeeded()
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in ended.out.splitlines() if "│" in line]
    assert sorted(row[0] for row in rows if row[0]) == list(encodings)
    assert all(row[1] and row[2] for row in rows if row[0])
    assert list(tmp_path.iterdir()) == []
