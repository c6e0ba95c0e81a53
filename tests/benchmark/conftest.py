"""Benchmarks without peers, and their files read back."""

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from relformer.benchmark import peers


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No peer is installed."""
    monkeypatch.setattr(peers, "find_spec", lambda name: None)


@pytest.fixture
def written() -> Callable[[Path], list[dict[str, str]]]:
    def read(path: Path) -> list[dict[str, str]]:
        with open(path, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    return read
