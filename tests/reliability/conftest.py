"""A run that several tests look at, trained once."""

from pathlib import Path

import pytest

from tests.reliability.small import run


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a finished run of two steps."""
    directory = tmp_path_factory.mktemp("trained") / "run"
    run(directory, "trainer.max_steps=2", "eval.every=2")
    return directory
