"""Heatmaps of the bias while training: what is drawn, when, from which numbers, on one scale."""

from pathlib import Path

import numpy as np
import pytest
import torch

from relformer.figures.heatmap import heatmap_grid, toeplitz_maps
from relformer.training.callbacks.bias_heatmaps import LEAST_LIMIT, BiasHeatmaps
from tests.training.measured import drawn, files, module, trainer

LENGTH = 5
SLOTS = ("encoder", "decoder", "cross")


def test_numbers_are_the_bias_of_the_model(tmp_path: Path) -> None:
    built = module(encoding={"name": "alibi"})
    BiasHeatmaps(str(tmp_path), length=LENGTH).on_train_start(trainer(), built)
    assert files(tmp_path) == {f"{slot}_step000000{suffix}" for slot in SLOTS for suffix in (".png", ".npz")}
    _, numbers = drawn(tmp_path, "encoder_step000000")
    distance = np.arange(-10, 11)
    assert numbers["distance"].tolist() == distance.tolist()
    # ALiBi of two heads: slopes 2^-4 and 2^-8.
    slopes = np.array([2.0**-4, 2.0**-8])
    np.testing.assert_allclose(numbers["table"], -slopes[None, :, None] * np.abs(distance), rtol=1e-6)


def test_pixels_are_of_the_numbers_and_the_decoder_is_causal(tmp_path: Path) -> None:
    built = module(encoding={"name": "t5", "init_std": 2.0, "share": "layer"})
    callback = BiasHeatmaps(str(tmp_path), length=LENGTH)
    callback.on_train_start(trainer(), built)
    for stack, causal in (("encoder", False), ("decoder", True)):
        pixels, numbers = drawn(tmp_path, f"{stack}_step000000")
        keys = 9 if causal else 11
        tables = numbers["table"][..., keys - LENGTH : keys + LENGTH - 1]
        maps = np.stack([toeplitz_maps(table) for table in tables])
        future = np.triu(np.ones(maps.shape[-2:], bool), 1)
        assert np.isnan(maps).any() == causal and not np.isnan(maps[..., ~future]).any()
        assert np.array_equal(numbers["map"], maps, equal_nan=True)
        assert (pixels == heatmap_grid(maps, callback.limit or 0)).all()
    assert not np.array_equal(numbers["table"][0], numbers["table"][1])


def test_the_scale_stays_when_the_bias_grows(tmp_path: Path) -> None:
    built = module(encoding={"name": "t5", "init_std": 3.0})
    callback = BiasHeatmaps(str(tmp_path), length=LENGTH)
    callback.on_train_start(trainer(), built)
    _, before = drawn(tmp_path, "encoder_step000000")
    _, decoder = drawn(tmp_path, "decoder_step000000")
    limit = callback.limit
    assert limit == pytest.approx(max(np.abs(before["map"]).max(), np.nanmax(np.abs(decoder["map"]))))
    assert limit is not None and limit > LEAST_LIMIT
    with torch.no_grad():
        for parameter in built.model.slots["encoder"].parameters():
            parameter.mul_(10)
    callback.on_train_batch_end(trainer(500), built, None, None, 0)
    assert callback.limit == limit
    pixels, after = drawn(tmp_path, "encoder_step000500")
    np.testing.assert_allclose(after["table"], 10 * before["table"], rtol=1e-5)
    assert (pixels == heatmap_grid(after["map"], limit)).all()


def test_small_biases_get_the_least_scale_and_a_resume_keeps_its_own(tmp_path: Path) -> None:
    callback = BiasHeatmaps(str(tmp_path), length=LENGTH)
    callback.on_train_start(trainer(), module(encoding={"name": "t5"}))
    assert callback.limit == LEAST_LIMIT
    resumed = BiasHeatmaps(str(tmp_path), length=LENGTH)
    resumed.load_state_dict({"limit": 9.0})
    resumed.on_train_start(trainer(500), module(encoding={"name": "t5"}))
    assert resumed.limit == resumed.state_dict()["limit"] == 9.0


def test_a_scale_that_is_given_is_kept(tmp_path: Path) -> None:
    callback = BiasHeatmaps(str(tmp_path), length=LENGTH, limit=0.5)
    callback.on_train_start(trainer(), module(encoding={"name": "alibi"}))
    assert callback.limit == 0.5


def test_when_it_draws(tmp_path: Path) -> None:
    built = module(encoding={"name": "alibi"}, decoder_encoding={"name": "none"})
    callback = BiasHeatmaps(str(tmp_path), every_n_steps=3, length=LENGTH)
    callback.on_train_start(trainer(), built)
    for step in range(1, 8):
        callback.on_train_batch_end(trainer(step), built, None, None, step - 1)
    callback.on_train_end(trainer(7), built)
    steps = {f"{slot}_step{step:06d}{suffix}" for slot in SLOTS for step in (0, 3, 6, 7) for suffix in (".png", ".npz")}
    assert files(tmp_path) == steps | {f"{slot}.png" for slot in SLOTS}


@pytest.mark.parametrize("name", ["none", "rope", "sinusoidal", "shaw"])
def test_encodings_without_a_table_are_measured(tmp_path: Path, name: str) -> None:
    built = module(encoding={"name": name})
    callback = BiasHeatmaps(str(tmp_path), length=LENGTH)
    callback.on_train_start(trainer(), built)
    callback.on_train_end(trainer(3), built)
    pixels, numbers = drawn(tmp_path, "encoder_step000003")
    assert numbers["map"].shape == (2, 2, LENGTH, LENGTH) and numbers["r2"].shape == (2, 2)
    assert numbers["profile"].shape == (2, 2, 21) and "table" not in numbers
    assert (pixels == heatmap_grid(numbers["map"], callback.limit or 0)).all()
    assert ("encoder_terms.png" in files(tmp_path)) == (name == "sinusoidal")
    assert np.nanmax(np.abs(numbers["map"])) > 0.01 or name == "none"


def test_only_rank_zero_draws(tmp_path: Path) -> None:
    built = module(encoding={"name": "alibi"})
    callback = BiasHeatmaps(str(tmp_path), every_n_steps=1, length=LENGTH)
    for hook in (callback.on_train_start, callback.on_train_batch_end, callback.on_train_end):
        hook(trainer(2, rank_zero=False), built)
    assert files(tmp_path) == set()


def test_drawing_changes_no_random_state_and_no_gradient(tmp_path: Path) -> None:
    built = module(encoding={"name": "t5"})
    state = torch.get_rng_state()
    BiasHeatmaps(str(tmp_path), length=LENGTH).on_train_start(trainer(), built)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.grad is None for parameter in built.model.parameters())


def test_the_cross_slot_shows_its_table(tmp_path: Path) -> None:
    built = module(encoding={"name": "none"}, cross_encoding={"name": "t5"})
    BiasHeatmaps(str(tmp_path), length=LENGTH).on_train_start(trainer(), built)
    _, numbers = drawn(tmp_path, "cross_step000000")
    distance = torch.arange(-10, 9)
    np.testing.assert_allclose(numbers["table"][0], built.model.slots["cross"].first.table(distance).detach())
