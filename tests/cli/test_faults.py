"""A user's fault: one message, exit code 2, nothing written."""

from pathlib import Path

import pytest

from tests.cli.runs import relformer


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["encoding=alibbi"], "error: no encoding 'alibbi'; did you mean 'alibi'?\n  encoding: "),
        (
            ["data=reverse", "model.heads=5", "loss.label_smoothing=2", "hydra.run.dir=here"],
            "error: loss.label_smoothing=2.0 must lie in [0, 1)\nerror: model.heads=5 does not divide model.width=64",
        ),
        (["encode"], "error: no command 'encode'\nusage: relformer [train] [overrides]"),
        (["evaluate", "nowhere"], "nowhere is not a run: it has no checkpoints/last.ckpt"),
        (["compare", "."], "error: no finished run (metrics.json) below .; is training done?"),
    ],
)
def test_a_fault_ends_in_a_message_and_leaves_nothing(tmp_path: Path, arguments: list[str], message: str) -> None:
    ended = relformer(*arguments, cwd=tmp_path, script=arguments[0] == "encoding=alibbi")
    assert ended.code == 2
    assert message in ended.error and ended.error.startswith("error: ")
    assert "Traceback" not in ended.error and "Warning" not in ended.error
    assert ended.out == ""
    assert list(tmp_path.iterdir()) == []


def test_all_encodings_are_listed(tmp_path: Path) -> None:
    from relformer.registry import encodings

    ended = relformer("encodings", cwd=tmp_path).succeeded()
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in ended.out.splitlines() if "│" in line]
    assert [row[0] for row in rows if row[0]] == list(encodings)
    assert all(row[1] and row[2] for row in rows if row[0])
    assert list(tmp_path.iterdir()) == []
