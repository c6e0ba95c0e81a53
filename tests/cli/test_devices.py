"""More devices: one run directory, the same losses and the same figures."""

from pathlib import Path

import pytest

from tests.cli.runs import TINY, corpus_figures, losses, relformer, results, run_directories

RUN = (*TINY, "logger=csv", "trainer.max_steps=4", "eval.every=2", "data.batch_size=33", "data.eval_batch_size=7")
"""Batches that two ranks can't halve, and evaluation sets whose last batch leaves a rank with nothing."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """One run on one device and one on two, with flags behind the overrides, which a second rank once died of."""
    made = {}
    for devices in (1, 2):
        home = tmp_path_factory.mktemp(f"devices{devices}")
        (home / "conf").mkdir()
        arguments = (*RUN, f"trainer.devices={devices}", "hardware=cpu", "paths.log_dir=runs", "--config-dir", "conf")
        ended = relformer(*arguments, cwd=home, script=True).succeeded()
        assert "Traceback" not in ended.error
        assert ended.out.count("run directory") == 1
        (made[devices],) = run_directories(home)
        assert len(list((home / "runs").glob("**/.hydra"))) == 1
    return made


def test_two_devices_have_the_losses_of_one(runs: dict[int, Path]) -> None:
    one, two = (losses(runs[devices]) for devices in (1, 2))
    assert list(one) == list(two) and len(one) == 4
    for step in one:
        assert float(two[step]) == pytest.approx(float(one[step]), abs=1e-5)


def test_two_devices_end_with_the_figures_of_one(runs: dict[int, Path]) -> None:
    one, two = (corpus_figures(results(runs[devices])) for devices in (1, 2))
    assert one.keys() == two.keys()
    for key, value in one.items():
        assert two[key] == pytest.approx(value, abs=1e-2 if key[-1] != "loss" else 1e-4), key


@pytest.mark.slow
def test_one_checkpoint_has_the_same_figures_on_any_number_of_devices(runs: dict[int, Path], tmp_path: Path) -> None:
    """A run that continues at its last step does nothing but evaluate."""
    last = runs[1] / "checkpoints" / "last.ckpt"
    place = ("trainer.devices=2", f"resume={last}", f"hydra.run.dir={tmp_path / 'again'}")
    relformer(*RUN, *place, cwd=tmp_path, script=True).succeeded()
    one, two = (corpus_figures(results(run)) for run in (runs[1], tmp_path / "again"))
    compared = {key for key in one if key[0] == "last"}
    assert len(compared) == 4 * 8
    for key in compared:
        assert two[key] == pytest.approx(one[key], abs=1e-6), key
    lines = [(run / "examples.jsonl").read_text().splitlines() for run in (runs[1], tmp_path / "again")]
    assert len(lines[0]) == len(lines[1]) > 300
