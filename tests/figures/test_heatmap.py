"""Heatmaps: orientation, a scale that never follows the data, visible clipping, whole files only."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from relformer.errors import UserError
from relformer.figures import heatmap
from relformer.figures.heatmap import GAP, caption, coloured, draw_heatmap, heatmap_grid, save_png, toeplitz_maps
from relformer.figures.labelled import CELL, attention_heatmap


def by_distance(length: int, heads: int = 2, causal: bool = False) -> np.ndarray:
    """A table whose value is the distance i - j itself, in every head."""
    distance = np.arange(-(length - 1), length, dtype=float)
    return np.tile(np.where(causal & (distance < 0), np.nan, distance), (heads, 1))


def test_toeplitz_holds_query_minus_key() -> None:
    maps = toeplitz_maps(by_distance(5))
    assert maps.shape == (2, 5, 5)
    assert all(maps[0, i, j] == i - j for i in range(5) for j in range(5))


@pytest.mark.parametrize("shape", [(3,), (2, 4)])
def test_bad_table_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="heads, 2L-1"):
        toeplitz_maps(np.zeros(shape))


def test_grid_layout_and_orientation() -> None:
    maps = np.zeros((2, 3, 64, 64))
    maps[1, 2, 63, 0] = 1.0
    grid = heatmap_grid(maps, limit=1.0)
    assert grid.dtype == np.uint8
    assert grid.shape == (2 * (128 + GAP) + GAP, 3 * (128 + GAP) + GAP, 3)
    red = np.argwhere(grid[..., 0].astype(int) > grid[..., 2].astype(int) + 60)
    bottom, left = 2 * (128 + GAP) - 1, 2 * (128 + GAP) + GAP
    assert red.min(axis=0).tolist() == [bottom - 1, left]
    assert red.max(axis=0).tolist() == [bottom, left + 1]


def test_colour_depends_on_the_scale_alone() -> None:
    alone = heatmap_grid(np.full((1, 1, 128, 128), 0.5), limit=2.0)[GAP, GAP]
    maps = np.full((1, 1, 128, 128), 0.5)
    maps[0, 0, 5, 5] = 100.0
    assert np.array_equal(heatmap_grid(maps, limit=2.0)[GAP, GAP], alone)


def test_signs_zero_and_missing_have_their_colours() -> None:
    maps = np.array([[[[-9.0, np.nan], [0.0, np.inf]]]])
    grid = heatmap_grid(maps, limit=1.0).astype(int)
    low, missing = grid[GAP, GAP], grid[GAP, GAP + 127]
    zero, high = grid[GAP + 127, GAP], grid[GAP + 127, GAP + 127]
    assert low[2] > low[0]
    assert high[0] > high[2]
    assert zero.min() > 240
    assert len(set(missing.tolist())) == 1
    assert missing[0] < 200


def test_long_maps_are_not_enlarged() -> None:
    assert heatmap_grid(np.zeros((1, 1, 200, 200)), 1.0).shape == (200 + 2 * GAP, 200 + 2 * GAP, 3)


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan")])
def test_scale_must_be_positive(limit: float) -> None:
    with pytest.raises(UserError, match="must be positive"):
        heatmap_grid(np.zeros((1, 1, 2, 2)), limit)


def test_caption_tells_range_scale_and_share_beyond() -> None:
    maps = toeplitz_maps(by_distance(3, causal=True))[None]
    assert caption(maps, 5.0, 70) == "step 70: 0 to 2 nats, scale ±5 nats"
    assert caption(maps, 1.5, 70) == "step 70: 0 to 2 nats, scale ±1.5 nats, 17 % of cells beyond the scale"
    assert "no values" in caption(np.full((1, 1, 2, 2), np.nan), 1.0, 0)


def test_figure_labels_and_files(tmp_path: Path) -> None:
    figure = draw_heatmap(toeplitz_maps(by_distance(4, heads=8, causal=True))[None], 2.0, "bias")
    titles = [axis.get_title() for axis in figure.axes if axis.get_title()]
    assert titles == [f"head {head}" for head in range(1, 9)]
    assert (figure.get_supxlabel(), figure.get_supylabel()) == ("key position j", "query position i")
    assert figure.axes[-1].get_ylabel() == "nats"
    assert all(axis.images[0].get_clim() == (-2.0, 2.0) for axis in figure.axes[:8])
    save_png(figure, tmp_path / "new" / "figure.png")
    image = heatmap_grid(np.zeros((1, 2, 4, 4)), 1.0)
    save_png(image, tmp_path / "grid.png")
    assert np.array_equal((imread(tmp_path / "grid.png")[..., :3] * 255).round().astype(np.uint8), image)
    assert sorted(p.name for p in tmp_path.rglob("*.*")) == ["figure.png", "grid.png"]


def test_a_narrow_figure_keeps_its_width_and_names_rows_and_columns_once() -> None:
    figure = draw_heatmap(np.zeros((2, 4, 5, 5)), 1.0, "bias", 3.35)
    assert figure.get_figwidth() == 3.35
    panels = figure.axes[:8]
    assert [axis.get_title() for axis in panels] == [f"head {head}" for head in range(1, 5)] + [""] * 4
    assert [axis.get_ylabel() for axis in panels] == ["layer 1", "", "", "", "layer 2", "", "", ""]


def test_failed_write_keeps_the_old_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(_: object, path: Path, *__: object, **___: object) -> None:
        path.write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(heatmap.Image.Image, "save", full_disk)
    target = tmp_path / "grid.png"
    target.write_bytes(b"old")
    with pytest.raises(OSError, match="no space"):
        save_png(np.zeros((2, 2, 3), np.uint8), target)
    assert [p.name for p in tmp_path.iterdir()] == ["grid.png"]
    assert target.read_bytes() == b"old"


def test_attention_has_a_cell_a_weight_and_room_for_tokens() -> None:
    """Only the head that attends is red, where it does; longer tokens make the margins wider."""
    weights = np.zeros((2, 3, 4, 6))
    weights[1, 2, 3, 0] = 1.0
    queries, keys = list("abcd"), list("efghij")
    picture = attention_heatmap(weights, queries, keys, "cross attention")
    dark = np.argwhere((picture[:, : 3 * (6 * CELL + 14)] == coloured(np.ones(1), 1.0)[0]).all(-1))
    (top, left), (bottom, right) = dark.min(0), dark.max(0)
    assert abs(bottom - top - CELL + 1) <= 1 and abs(right - left - CELL + 1) <= 1
    assert len(dark) >= (CELL - 1) ** 2 and top > picture.shape[0] / 2
    wider = attention_heatmap(weights, ["a", "b", "c", "a long token"], keys, "cross attention")
    assert wider.shape[0] == picture.shape[0] and wider.shape[1] > picture.shape[1]
    many = attention_heatmap(np.zeros((1, 1, 60, 60)), ["word"] * 60, ["word"] * 60, "encoder attention")
    assert many.shape[0] < 60 * CELL
