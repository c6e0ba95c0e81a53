"""Which of the checkpoints kept for averaging are meant, and what is said of a run after its training."""

from pathlib import Path
from typing import Any

import pytest
import torch

from relformer.decoding import DecodingOptions
from relformer.errors import UserError
from relformer.presets import preset
from relformer.training import trained
from relformer.training.resume import run_parts
from relformer.training.trained import OF_A_SEARCH, kept_checkpoints, open_run, stored_config
from tests.config.composed import checked


def test_the_latest_and_the_best_of_those_kept(tmp_path: Path) -> None:
    losses = {10: 3.25, 20: 2.5, 30: 2.0, 40: 2.75}
    for step, loss in losses.items():
        for name in (f"recent-{step}.ckpt", f"best-{step}-{loss:.6f}.ckpt"):
            torch.save({"global_step": step}, tmp_path / name)
    assert [path.name for path in kept_checkpoints(tmp_path, "last", 2)] == ["recent-30.ckpt", "recent-40.ckpt"]
    best = [path.name for path in kept_checkpoints(tmp_path, "best_val", 2)]
    assert best == ["best-20-2.500000.ckpt", "best-30-2.000000.ckpt"]
    with pytest.raises(UserError, match="average=5 is more than the 4 checkpoints"):
        kept_checkpoints(tmp_path, "best_val", 5)


@pytest.mark.parametrize(
    ("of_run", "said", "expected"),
    [
        ("beam", ["decoding=greedy"], {}),
        ("beam", ["decoding=greedy", "decoding.alpha=1"], {"alpha": 1.0}),
        ("beam", ["decoding=sample"], {"sample": True, "top_p": 0.9}),
        ("sample", ["decoding=beam"], {"beams": 5}),
        ("beam", ["+decoding='greedy'"], {}),
        ("sample", ["decoding=greedy"], {}),
        ("many", ["decoding=greedy"], {}),
        ("many", ["decoding=sample"], {"sample": True, "top_p": 0.9}),
        ("beam", [], {"beams": 5}),
    ],
)
def test_another_search_is_that_search_whatever_the_run_had(
    of_run: str, said: list[str], expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lengths stay the run's."""
    more = {"sample": ["decoding.temperature=0.7", "decoding.top_k=9"], "many": ["decoding.n_best=5"]}
    options = [f"decoding={of_run.replace('many', 'beam')}", "decoding.max_length_factor=3", *more.get(of_run, [])]
    parts = run_parts(checked(*options))
    monkeypatch.setattr(trained, "read_config", lambda path: parts)
    found = stored_config(Path("last.ckpt"), said).decoding
    assert DecodingOptions(**found) == DecodingOptions(**{"max_length_factor": 3.0, **expected})


def test_a_search_that_is_asked_for_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a run that left it out at its end, too."""
    monkeypatch.setattr(trained, "read_config", lambda path: run_parts(checked("eval.generate=false")))
    said = {"decoding=beam": True, "decoding.beams=2": True, "data.eval_batch_size=8": False}
    assert {each: stored_config(Path("last.ckpt"), [each]).eval.generate for each in said} == said
    assert not stored_config(Path("last.ckpt"), ["decoding=beam", "eval.generate=false"]).eval.generate


def test_what_tells_searches_apart_is_what_their_files_set() -> None:
    for name in ("greedy", "beam", "sample"):
        assert set(preset("decoding", name)) <= set(OF_A_SEARCH)


@pytest.mark.parametrize("said", ["eval={checkpoint: best_val}", "+eval={checkpoint: best_val}", "decoding.beams=2"])
def test_whole_groups_are_not_given_after_training(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trained, "read_config", lambda path: run_parts(checked()))
    if said.startswith("decoding"):
        assert stored_config(Path("last.ckpt"), [said]).decoding.beams == 2
    else:
        with pytest.raises(UserError, match=r"can't be chosen after training; set single options: eval\.KEY=VALUE"):
            stored_config(Path("last.ckpt"), [said])


@pytest.mark.parametrize("plus", ["", "+"])
def test_the_best_checkpoint_is_meant_however_it_is_spelt(plus: str, tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(UserError, match=r"has no checkpoints/best\.ckpt"):
        open_run(str(tmp_path), [f"{plus}eval.checkpoint=best_val"])
