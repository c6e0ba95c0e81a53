"""That the framework sees what it is for: two encodings that look alike in distribution and differ beyond it."""

from pathlib import Path

import pytest

from tests.cli.runs import relformer, results, run_directories


@pytest.mark.slow
def test_transformer_xl_goes_further_than_sinusoids(tmp_path: Path) -> None:
    """A smoke test, no finding: one seed, whole training runs."""
    prefix = {}
    for encoding in ("transformer_xl", "sinusoidal"):
        log = tmp_path / encoding
        relformer(
            "data=reverse", f"encoding={encoding}", "logger=csv", f"paths.log_dir={log}", cwd=tmp_path, script=True
        ).succeeded()
        (run,) = run_directories(log)
        last = results(run)["last"]
        assert last["test_iid"]["exact_match"] > 0.95
        prefix[encoding] = last["test_longer"]["correct_prefix"]
    assert prefix["transformer_xl"] > 3 * prefix["sinusoidal"]
