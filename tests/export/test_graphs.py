"""Graphs of torch.export, reloaded, against the model; greedy decoding with them alone, as the card shows it."""

from pathlib import Path

import pytest
import torch

from relformer.decoding import greedy
from relformer.encodings import LengthError
from relformer.errors import OptionError, UserError
from relformer.export.graphs import USAGE, choose_kernels, difference, export_graphs, graphs
from tests.model.models import PLACES, build
from tests.model.test_decoder_only import build as build_decoder_only

LENGTH = 10
QUICK = ("rope", "t5", "deberta@cross", "forgetting", "learned")
"""Each of another kind; the others take minutes together."""


@pytest.mark.parametrize(
    "place", [place if place in QUICK else pytest.param(place, marks=pytest.mark.slow) for place in PLACES]
)
def test_the_graphs_give_the_models_logits(place: str, tmp_path: Path) -> None:
    model = build(place)
    choose_kernels(model)
    for name, program in graphs(model, LENGTH).items():
        torch.export.save(program, tmp_path / f"{name}.pt2")
    assert difference(model, tmp_path, LENGTH) < 1e-5


def test_the_usage_in_the_card_decodes_greedily(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("alibi")
    choose_kernels(model)
    for name, program in graphs(model, LENGTH).items():
        torch.export.save(program, tmp_path / f"{name}.pt2")
    ids = torch.tensor([[1, 5, 6, 7, 2]])
    usage = USAGE.format(length=LENGTH, source="", bos=1, eos=2)
    code = usage.split("```python\n")[1].split("```")[0]
    given = "\nsource[0, :5] = torch.tensor([1, 5, 6, 7, 2])\nstates, values"
    namespace: dict[str, torch.Tensor] = {}
    monkeypatch.chdir(tmp_path)
    exec(code.replace("\nstates, values", given), namespace)
    expected = [token for token in greedy(model, ids, LENGTH - 1, bos=1, eos=2)[0].tolist() if token != 2]
    assert namespace["target"][0, 1 : len(expected) + 1].tolist() == expected and len(expected) > 1


def test_more_positions_than_the_encoding_has(tmp_path: Path) -> None:
    class Run:
        class module:  # noqa: N801
            model = build("learned")

    with pytest.raises((OptionError, LengthError), match="is more than the 24 positions"):
        list(export_graphs(Run, tmp_path / "to", 25))  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_a_model_without_an_encoder_is_refused(tmp_path: Path) -> None:
    class Run:
        class module:  # noqa: N801
            model = build_decoder_only("t5")

    with pytest.raises(UserError, match="format=torch_export writes an encoder and a decoder"):
        list(export_graphs(Run, tmp_path / "to", 8))  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())
