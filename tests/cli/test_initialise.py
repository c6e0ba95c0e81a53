"""`init_from=RUN`: a run with another's weights, in its own configuration."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from relformer import UserError, compose
from relformer.training.origin import open_origin, origin_parts
from relformer.training.resume import read_config
from tests.cli.runs import TINY, Ended, metrics, relformer

SHORT = (*TINY, "logger=none", "trainer.max_steps=2", "eval.generate=false", "hydra.run.dir=new")


def test_what_does_not_fit_is_listed_and_leaves_nothing_behind(trained: tuple[Path, Ended], tmp_path: Path) -> None:
    done = relformer("train", *SHORT, f"init_from={trained[0]}", "encoding=alibi", cwd=tmp_path)
    assert done.code == 2 and not list(tmp_path.iterdir()) and "Traceback" not in done.error
    lines = done.error.splitlines()
    assert "(step 12)" in lines[0]
    assert [line.split()[:3] for line in lines[1:3]] == [
        ["dropped", f"{stack}.slot.encodings.0.bucket_weight", "32x4"] for stack in ("encoder", "decoder")
    ]
    assert lines[3:] == ["  2 dropped", "to go on with these, add init_strict=false"]


def test_a_swap_trains_on_and_says_where_it_comes_from(trained: tuple[Path, Ended], tmp_path: Path) -> None:
    swap = (f"init_from={trained[0]}", "encoding=alibi", "init_strict=false")
    done = relformer("train", *SHORT, *swap, cwd=tmp_path).succeeded()
    assert "2 dropped" in done.out and "66 tensors" in done.out
    run = metrics(tmp_path / "new")
    assert run["checkpoints"]["last"]["step"] == 2
    assert run["initialised"]["from"] == str(trained[0] / "checkpoints" / "last.ckpt")
    assert len(run["initialised"]["sha256"]) == 64 and run["initialised"]["step"] == 12
    assert run["config"]["init_from"] == {"step": 12, "encoding": "t5", "run": run["initialised"]["run"]}
    state = torch.load(tmp_path / "new" / "checkpoints" / "last.ckpt", weights_only=True)["optimizer_states"][0]
    assert {float(each["step"]) for each in state["state"].values()} == {2.0}


def test_origins_are_one_group_where_their_seeds_alone_differ(trained: tuple[Path, Ended]) -> None:
    origin = open_origin(str(trained[0]))
    other = replace(origin, config={**origin.config, "seed": 7}, sha256="0", path="elsewhere")
    assert origin_parts({"initialised": origin.record}) == origin_parts({"initialised": other.record})
    wider = replace(origin, config={**origin.config, "optimizer": {**origin.config["optimizer"], "lr": 0.5}})
    assert origin_parts({"initialised": origin.record}) != origin_parts({"initialised": wider.record})
    chained = replace(origin, config={**origin.config, "initialised": wider.record})
    assert len({each.run for each in (origin, wider, chained)}) == 3
    assert replace(origin, path="hf:a").run != replace(origin, path="hf:b").run


def test_a_run_goes_on_without_its_origin(trained: tuple[Path, Ended], tmp_path: Path) -> None:
    """What it started from is gone, and it is nobody's fault."""
    origin = shutil.copytree(trained[0], tmp_path / "origin")
    first = relformer("train", *SHORT, "init_from=origin", cwd=tmp_path).succeeded()
    assert "are taken as they are" in first.out
    shutil.rmtree(origin)
    longer = [option for option in SHORT if not option.startswith("trainer.max_steps")]
    done = relformer(
        "train", *longer, "trainer.max_steps=4", "init_from=origin", "resume=auto", cwd=tmp_path
    ).succeeded()
    assert "continuing from" in done.out and "are taken as they are" not in done.out
    assert read_config(tmp_path / "new" / "checkpoints" / "last.ckpt")["initialised"]["step"] == 12


def test_an_exported_folder_and_steps_that_start_at_zero(trained: tuple[Path, Ended], tmp_path: Path) -> None:
    relformer("export", str(trained[0]), "to=folder", cwd=tmp_path).succeeded()
    done = relformer("train", *SHORT, "init_from=folder", "encoding.max_distance=64", cwd=tmp_path).succeeded()
    assert "weights of folder/model.safetensors (step 12): 68 tensors" in done.out
    assert metrics(tmp_path / "new")["initialised"]["from"] == "folder/model.safetensors"


def test_what_there_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="nowhere does not exist"):
        open_origin(str(tmp_path / "nowhere"))
    monkeypatch.setitem(sys.modules, "relformer.hf", None)
    with pytest.raises(UserError, match="init_from=hf:google-t5/t5-small needs relformer's extra hf"):
        open_origin("hf:google-t5/t5-small")


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("init_from=3", "init_from=3 is not a path"),
        ("init_strict=maybe", "init_strict=maybe is not true or false"),
        ("init_form=run", "did you mean 'init_from'"),
    ],
)
def test_a_fault_is_one_sentence(option: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        compose([*TINY, option], checked=True)


def test_a_damaged_origin_is_refused(trained: tuple[Path, Ended], tmp_path: Path) -> None:
    path = Path(shutil.copy(trained[0] / "checkpoints" / "last.ckpt", tmp_path / "last.ckpt"))
    bits = bytearray(path.read_bytes())
    bits[len(bits) // 2] ^= 1
    path.write_bytes(bits)
    done = relformer("train", *SHORT, "init_from=last.ckpt", cwd=tmp_path)
    assert done.code == 2 and "last.ckpt is damaged" in done.error and not (tmp_path / "new").exists()
