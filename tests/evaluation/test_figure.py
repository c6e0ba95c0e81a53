"""`relformer figure`: each kind in each format, at the width of a column, and clear words where there is nothing."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from relformer.errors import UserError
from relformer.evaluation.compare import compared
from relformer.evaluation.figure import COLUMN, PAGE, figure_command
from relformer.evaluation.pictures import curve_figure, pareto_figure, scatter_figure
from relformer.evaluation.tables import within_scale
from tests.evaluation.simulated import config, write_groups, write_numbers, write_texts

BEGINNINGS = {"pdf": b"%PDF", "svg": b"<?xml", "png": b"\x89PNG"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_groups(tmp_path_factory.mktemp("runs"), {"t5": 0.4, "alibi": 0.6, "shaw": 0.6}, seeds=5, each=12)


@pytest.mark.parametrize("kind", ["curve", "scatter", "pareto"])
@pytest.mark.parametrize("suffix", BEGINNINGS)
def test_every_kind_in_every_format(runs: Path, kind: str, suffix: str, tmp_path: Path) -> None:
    out = tmp_path / f"made/{kind}.{suffix}"
    assert figure_command([kind, str(runs), f"out={out}"]) == out
    assert out.read_bytes().startswith(BEGINNINGS[suffix])
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    if suffix == "png":
        assert imread(out).shape[1] == pytest.approx(300 * COLUMN, abs=1)


def test_the_curve_is_mean_band_and_dots_over_seeds(runs: Path) -> None:
    found = compared([str(runs)], tests=False)
    axis = curve_figure(found, PAGE).axes[0]
    assert "95 % band over seeds" in axis.get_ylabel()
    for group, label in zip(found.groups, found.labels, strict=True):
        line = next(line for line in axis.get_lines() if line.get_label() == label)
        x, y = map(np.asarray, line.get_data())
        assert x.tolist() == [*range(1, 11), *range(13, 21)]
        values = group.by_length("test_longer", [(15, 15)])[15, 15]
        assert y[x.tolist().index(15)] == pytest.approx(np.mean(values))
        dots = [p for c in axis.collections for p in np.asarray(c.get_offsets()).tolist() if p[0] == 15]
        assert all([15, pytest.approx(value)] in dots for value in values)
        bands = [np.asarray(c.get_paths()[0].vertices) for c in axis.collections if len(c.get_paths()[0].vertices) > 30]
        low, high = within_scale(values) or (0, 0)
        assert any({(15, round(low, 6)), (15, round(high, 6))} <= set(map(tuple, b.round(6).tolist())) for b in bands)


def test_a_curve_of_another_figure_says_so(runs: Path) -> None:
    found = compared([str(runs)], tests=False)
    axis = curve_figure(found, PAGE, "correct_prefix").axes[0]
    assert axis.get_ylabel().startswith("correct prefix")
    x, y = map(np.asarray, next(line for line in axis.get_lines() if line.get_label() == found.labels[0]).get_data())
    values = found.groups[0].by_length("test_longer", [(15, 15)], "correct_prefix")[15, 15]
    assert y[x.tolist().index(15)] == pytest.approx(np.mean(values))
    assert values != found.groups[0].by_length("test_longer", [(15, 15)])[15, 15]


def test_a_curve_of_bleu_has_its_scale(tmp_path: Path) -> None:
    found = compared([str(write_texts(tmp_path, {"t5": 30.0, "alibi": 44.0}))], tests=False)
    axis = curve_figure(found, PAGE, "bleu").axes[0]
    assert axis.get_ylabel().startswith("BLEU") and "target length" in axis.get_xlabel()
    assert axis.get_ylim() == (0, 60)  # the interval of 44.5 of two seeds, 1 apart, ends at 50.85
    lines = {line.get_label(): line.get_data() for line in axis.get_lines()}
    assert [list(map(float, each)) for each in lines["t5"]] == [[3.5, 7.5], [30.5, 25.5]]


def test_the_scatters_show_every_seed(runs: Path) -> None:
    found = compared([str(runs)], tests=False)
    expected = {
        (x, y) for g in found.groups for x, y in zip(g.values("test_iid"), g.values("test_longer"), strict=True)
    }
    drawn = scatter_figure(found, PAGE, "exact_match").axes[0].collections
    assert {tuple(p) for c in drawn for p in np.asarray(c.get_offsets()).tolist()} >= expected
    costly = pareto_figure(found, "parameters", PAGE).axes[0]
    assert costly.get_xlabel() == "parameters" and costly.get_ylabel() == "test_longer, correct prefix"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["out=a.gif"], r"must end in \.pdf, \.svg, \.png"),
        (["out=a.pdf", "width=-3"], "width='-3' is not one of column, page"),
        (["out=a.pdf", "figure=chrf"], "figure='chrf' is drawn by length: relformer figure curve"),
        (["out=a.pdf", "cost=watts"], "no cost 'watts' that all runs have; there is: parameters"),
        ([], "required: out="),
    ],
)
def test_what_can_not_be_drawn_is_said(runs: Path, arguments: list[str], text: str) -> None:
    with pytest.raises(UserError, match=text):
        figure_command(["pareto", str(runs), *arguments])


def test_curves_of_different_data_share_no_axis(tmp_path: Path) -> None:
    for name in ("reverse", "copy"):
        write_numbers(tmp_path / name, config(data={"name": name, "seed": 0}), 0.5)
    with pytest.raises(UserError, match="length curves of different data"):
        figure_command(["curve", str(tmp_path), f"out={tmp_path / 'a.pdf'}"])
