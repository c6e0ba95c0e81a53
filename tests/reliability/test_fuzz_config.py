"""Any command line ends in a run or in one message: exit code 0 or 2, never a traceback, never half a run directory."""

import tempfile
import warnings
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from relformer.training import launch
from tests.cli.runs import here
from tests.reliability.overrides import command_lines

ENDED: Counter[str] = Counter()
"""How often each exit code was seen."""


@pytest.fixture(autouse=True)
def nothing_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    """A configuration that is accepted ends where Hydra would take over."""
    launch.prepare()
    monkeypatch.setattr(launch, "prepare", lambda folder: None)
    monkeypatch.setattr(launch, "entry", lambda: None)
    ENDED.clear()


def launched(arguments: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ended = here(*arguments, cwd=Path(folder))
        left = list(Path(folder).iterdir())
    assert ended.code in (0, 2), (ended.code, ended.error)
    assert "Traceback" not in ended.error and (ended.code == 0 or "error: " in ended.error)
    assert ended.code == 0 or not left, left
    ENDED[str(ended.code)] += 1


def fuzz(count: int) -> None:
    """The same command lines on every machine."""
    sizes = settings(
        max_examples=count, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    sizes(given(command_lines())(launched))()


def test_some_command_lines() -> None:
    fuzz(12)
    assert ENDED["2"]


@pytest.mark.slow
def test_many_command_lines() -> None:
    fuzz(500)
    assert ENDED["0"] >= 10 and ENDED["2"] >= 300, ENDED
