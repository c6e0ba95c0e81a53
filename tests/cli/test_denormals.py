"""Numbers too small to matter cost nothing in commands that run models."""

import sys

import pytest
import torch

from relformer import cli


@pytest.mark.parametrize(("command", "flushed"), [("train", True), ("evaluate", True), ("encodings", False)])
def test_denormals_are_flushed_where_models_run(command: str, flushed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    monkeypatch.setitem(cli.COMMANDS, command, lambda _: found.append((torch.tensor(1e-38) / 10).item() == 0))
    monkeypatch.setattr(sys, "argv", ["relformer", command, "seed=1"])
    try:
        cli.main()
    finally:
        torch.set_flush_denormal(False)
    assert found == [flushed]
