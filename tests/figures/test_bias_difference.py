"""Differences of stored bias maps: of a run's end and beginning, and of two runs' ends."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from relformer.errors import UserError
from relformer.figures.bias_difference import bias_figure, stored_maps


def keep(run: Path, stack: str, step: int, table: np.ndarray) -> None:
    """As a run keeps them: the maps of a bias by distance, (layers, heads, 2 length - 1)."""
    (run / "heatmaps").mkdir(parents=True, exist_ok=True)
    maps = np.stack([[by_distance(head, causal=stack == "decoder") for head in layer] for layer in table])
    np.savez_compressed(run / "heatmaps" / f"{stack}_step{step:06d}.npz", map=maps)


def table(seed: int, heads: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(1, heads, 9)).astype(np.float32)


def drawn(figure: Figure) -> list[np.ndarray]:
    return [np.ma.filled(axis.images[0].get_array().astype(float), np.nan) for axis in figure.axes if axis.images]


def by_distance(values: np.ndarray, causal: bool = False) -> np.ndarray:
    wanted = np.full((5, 5), np.nan)
    for i in range(5):
        for j in range(5 if not causal else i + 1):
            wanted[i, j] = values[i - j + 4]
    return wanted


def test_one_run_is_its_end_minus_its_beginning(tmp_path: Path) -> None:
    for step, seed in ((0, 1), (500, 2), (1500, 3)):
        keep(tmp_path, "encoder", step, table(seed))
    keep(tmp_path, "decoder", 0, table(4))
    keep(tmp_path, "decoder", 1500, table(5))
    assert {stack: sorted(maps) for stack, maps in stored_maps(tmp_path).items()} == {
        "encoder": [0, 500, 1500],
        "decoder": [0, 1500],
    }
    figure = bias_figure([tmp_path], None, 7.0)
    assert figure.get_figwidth() == 7.0
    assert figure.get_suptitle() == "encoder bias, step 1500 minus step 0"
    for head, found in enumerate(drawn(figure)[:2]):
        np.testing.assert_allclose(found, by_distance((table(3) - table(1))[0, head]), rtol=1e-6)
    decoder = drawn(bias_figure([tmp_path], "decoder", 3.35))
    np.testing.assert_allclose(decoder[0], by_distance((table(5) - table(4))[0, 0], causal=True), rtol=1e-6)


def test_two_runs_are_compared_at_their_ends(tmp_path: Path) -> None:
    for run, last in (("one/a", 7), ("two/b", 8)):
        keep(tmp_path / run, "encoder", 0, table(1))
        keep(tmp_path / run, "encoder", 100, table(last))
    figure = bias_figure([tmp_path / "one/a", tmp_path / "two/b"], "encoder", 7.0)
    assert figure.get_suptitle() == "encoder bias, one minus two"
    np.testing.assert_allclose(drawn(figure)[0], by_distance((table(7) - table(8))[0, 0]), rtol=1e-6)
    bias_figure([tmp_path / "one/a", tmp_path / "one/a"], "encoder", 7.0).canvas.draw()


def test_what_has_no_difference_is_refused(tmp_path: Path) -> None:
    keep(tmp_path / "short", "encoder", 0, table(1))
    keep(tmp_path / "wide", "encoder", 0, table(1, heads=3))
    for runs, stack, text in (
        (["none"], None, "has no bias maps"),
        (["short"], None, "kept one map of its encoder"),
        (["short"], "decoder", "has no maps in"),
        (["short", "wide"], None, r"other shapes .*\(1, 2, 5, 5\) and \(1, 3, 5, 5\)"),
        (["short"] * 3, None, "not of 3"),
    ):
        with pytest.raises(UserError, match=text):
            bias_figure([tmp_path / run for run in runs], stack, 7.0)
