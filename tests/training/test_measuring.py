"""The callbacks beside BiasHeatmaps: one measurement for all, its cost, files that a resume goes on with, attention."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from relformer.analysis.measurement import Measurer
from relformer.training.callbacks.attention_maps import AttentionMaps
from relformer.training.callbacks.bias_heatmaps import BiasHeatmaps
from relformer.training.callbacks.bias_profiles import BiasProfiles
from relformer.training.callbacks.figure_cost import FigureCost
from relformer.training.callbacks.head_figures import HeadFigures, read_rows
from relformer.training.callbacks.length_curve import LengthCurve
from relformer.training.callbacks.measuring import SPENT
from relformer.training.callbacks.receptive_field import ReceptiveField
from tests.model.models import PLACES, config
from tests.training.measured import TRAINED, files, module, trainer


class Log:
    """A logger that remembers numbers."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, float]]] = []

    def log_metrics(self, numbers: dict[str, float], step: int) -> None:
        self.rows.append((step, numbers))


def test_all_draw_from_one_measurement_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []
    made = Measurer.measure
    monkeypatch.setattr(Measurer, "measure", lambda self, model: measured.append(1) or made(self, model))  # type: ignore[func-returns-value]
    built = module(encoding={"name": "rope"})
    callbacks = [
        BiasHeatmaps(str(tmp_path / "maps"), every_n_steps=2),
        BiasProfiles(str(tmp_path / "profiles"), every_n_steps=2),
        HeadFigures(str(tmp_path / "heads.csv"), every_n_steps=2),
    ]
    for callback in callbacks:
        callback.on_train_start(trainer(), built)
    for step in (1, 2, 3):
        for callback in callbacks:
            callback.on_train_batch_end(trainer(step), built, None, None, step - 1)
    for callback in callbacks:
        callback.on_train_end(trainer(3), built)
    assert len(measured) == 3
    names = {f"{slot}_step{step:06d}.png" for slot in ("encoder", "decoder", "cross") for step in (0, 2, 3)}
    assert files(tmp_path / "profiles") == names


@pytest.mark.parametrize("place", PLACES)
def test_every_encoding_has_pictures_of_every_slot(tmp_path: Path, place: str) -> None:
    built = module(**config(place))
    for callback in (BiasHeatmaps(str(tmp_path / "maps")), BiasProfiles(str(tmp_path / "profiles"))):
        callback.on_train_start(trainer(), built)
    names = {f"{slot}_step000000.png" for slot in ("encoder", "decoder", "cross")}
    assert names <= files(tmp_path / "maps") and names == files(tmp_path / "profiles")


def test_cost_is_what_the_callbacks_took(tmp_path: Path) -> None:
    built, log, cost = module(encoding={"name": "t5"}), Log(), FigureCost()
    callback = BiasHeatmaps(str(tmp_path))
    stand = trainer(4, loggers=[log])
    cost.on_train_start(stand, built)
    callback.on_train_start(stand, built)
    cost.on_train_end(stand, built)
    ((step, numbers),) = log.rows
    assert step == 4 and numbers["figures/seconds"] == SPENT[built] > 0
    assert 0.5 < numbers["figures/share_of_training"] <= 1


def test_a_resumed_run_rewrites_what_it_trains_again(tmp_path: Path) -> None:
    path, built = tmp_path / "heads.csv", module(encoding={"name": "t5"})
    first = HeadFigures(str(path), every_n_steps=1)
    for step in (0, 1, 2):
        first.draw_once(trainer(step), built)
    HeadFigures(str(path), every_n_steps=1).on_train_start(trainer(1), built)
    rows = read_rows(path)
    assert [row["step"] for row in rows] == ["0"] * 12 + ["1"] * 12
    assert {(row["slot"], row["layer"], row["head"]) for row in rows[:12]} == {
        (slot, layer, head) for slot in ("encoder", "decoder", "cross") for layer in "12" for head in "12"
    }
    assert all(0 <= float(row["first"]) <= 1 and row["word"] for row in rows)


def test_attention_of_a_sentence_with_its_tokens(tmp_path: Path) -> None:
    built = module(encoding={"name": "t5"})
    callback = AttentionMaps(str(tmp_path), sentences=[3])
    callback.on_train_start(trainer(), built)
    assert files(tmp_path) == set()
    callback.on_train_end(trainer(9), built)
    found = np.load(tmp_path / "sentence3.npz")
    assert found["source"].tolist() == ["<bos>", "d", "e", "f", "g", "<eos>"]
    assert found["target"].tolist() == ["<bos>", "g", "f", "e", "d"]
    assert found["cross"].shape == (2, 2, 5, 6)
    for slot in ("encoder", "decoder", "cross"):
        np.testing.assert_allclose(np.nansum(found[slot], -1), 1, atol=1e-5)
    assert np.isnan(found["decoder"][0, 0][np.triu_indices(5, 1)]).all()
    assert files(tmp_path) == {"sentence3.npz"} | {f"{slot}_sentence3.png" for slot in ("encoder", "decoder", "cross")}


def test_the_longest_and_a_middle_sentence_unless_told(tmp_path: Path) -> None:
    AttentionMaps(str(tmp_path)).on_train_end(trainer(), module(encoding={"name": "none"}))
    found = [np.load(path)["target"] for path in tmp_path.glob("*.npz")]
    assert sorted(map(len, found)) == [4, TRAINED + 1]  # with BOS


def test_the_receptive_field_is_written(tmp_path: Path) -> None:
    ReceptiveField(str(tmp_path)).on_train_end(trainer(), module(encoding={"name": "alibi"}))
    found = json.loads((tmp_path / "receptive_field.json").read_text())
    assert set(found) == {"encoder", "decoder"}
    assert len(found["encoder"]["share"]) == 11 and found["encoder"]["share"][-1] == pytest.approx(1)


def test_curves_by_length_at_validation(tmp_path: Path) -> None:
    built: Any = module(encoding={"name": "none"})
    rows = torch.zeros(20, 9, dtype=torch.double)
    rows[:, 2] = torch.arange(20) % TRAINED + 1
    rows[:, 3], rows[:, 4] = rows[:, 2] + 1, 1.0
    built.rows = {"val_iid": rows, "test_iid": rows}
    callback = LengthCurve(str(tmp_path))
    callback.on_validation_end(trainer(7), built)
    assert files(tmp_path) == {"validation_step000007.png"}
    for stand in (trainer(8, rank_zero=False), trainer(8)):
        stand.state.fn = stand.state.fn if not stand.is_global_zero else "validate"
        callback.on_validation_end(stand, built)
    assert files(tmp_path) == {"validation_step000007.png"}


def test_other_ranks_do_nothing(tmp_path: Path) -> None:
    built = module(encoding={"name": "t5"})
    for callback in (BiasProfiles(str(tmp_path)), ReceptiveField(str(tmp_path)), AttentionMaps(str(tmp_path))):
        callback.on_train_start(trainer(rank_zero=False), built)
        callback.on_train_end(trainer(rank_zero=False), built)
    FigureCost().on_train_end(trainer(rank_zero=False), built)
    assert files(tmp_path) == set()
