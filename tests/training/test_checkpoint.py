"""Checkpoints: whole or not at all, loadable without arguments and without running code, refused to other runs."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from relformer.config import plain
from relformer.data.corpus import build_corpus
from relformer.errors import RunError, UserError
from relformer.files import write_json
from relformer.training.checkpoint import AtomicCheckpointIO
from relformer.training.module import Seq2SeqModule
from relformer.training.resume import CHECKPOINTED, Start, read_config, refuse_occupied, run_parts, where_to_start
from relformer.training.run import module_config, train
from relformer.training.sealing import damage
from relformer.training.trained import open_run
from tests.config.composed import checked, without_hydra

CONFIG = (
    "encoding=t5",
    "decoder_encoding=alibi",
    "cross_encoding=rope",
    "scheduler=cosine",
    "optimizer=adamw",
    "trainer.accelerator=cpu",
    "trainer.max_steps=2",
    "logger=csv",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("run")
    config = checked(*CONFIG, f"paths.run_dir={directory}")
    train(without_hydra(config))
    return directory


def test_processes_are_a_part_of_a_run_whose_batches_grow_with_them() -> None:
    for batch, said in (("data.batch_size=8", None), ("data.max_tokens=64", 2)):
        config = checked(*CONFIG, batch, *(["data.batch_size=null"] if said else []))
        made = module_config(without_hydra(config), build_corpus(plain(config, "data")["data"]), 4, processes=2)
        assert made.get("processes") == said


class Unwritable:
    """Fails once it is reached, when part of the file is already written."""

    def __reduce__(self) -> Any:
        raise OSError("no space left on device")


def test_a_failure_while_writing_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "checkpoints" / "last.ckpt"
    AtomicCheckpointIO().save_checkpoint({"global_step": 3, "weight": torch.ones(3)}, path)
    with pytest.raises(RunError, match=r"step 6 was not written to .*: no space left.*that of step 3 is whole"):
        AtomicCheckpointIO().save_checkpoint(
            {"global_step": 6, "weight": torch.ones(100_000), "then": Unwritable()}, path
        )
    assert list(path.parent.iterdir()) == [path] and (tmp_path / CHECKPOINTED).read_text() == "3\n"
    assert torch.equal(torch.load(path, weights_only=True)["weight"], torch.ones(3))


def test_a_file_is_on_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name changes last: a reader meets the old content or the new."""
    path = tmp_path / "best.ckpt"
    AtomicCheckpointIO().save_checkpoint({"step": 1}, path)
    steps = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: (steps.append("sync"), sync(file)))

    def renaming(source: Path, target: Path) -> None:
        steps.append("rename")
        assert torch.load(target, weights_only=True) == {"step": 1}
        assert torch.load(source, weights_only=True) == {"step": 2} and damage(Path(source)) is None
        replace(source, target)

    monkeypatch.setattr(os, "replace", renaming)
    AtomicCheckpointIO().save_checkpoint({"step": 2}, path)
    assert steps == ["sync", "rename", "sync"]
    assert torch.load(path, weights_only=True) == {"step": 2}


def test_json_that_can_not_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "metrics.json"
    write_json(path, {"loss": 1})
    with pytest.raises(TypeError):
        write_json(path, {"loss": object()})
    assert path.read_text() == '{\n  "loss": 1\n}\n' and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["last", "best"])
def test_a_checkpoint_rebuilds_its_model_without_arguments(run: Path, name: str) -> None:
    path = run / "checkpoints" / f"{name}.ckpt"
    content = torch.load(path, weights_only=True)
    assert content["global_step"] == 2
    module = Seq2SeqModule.load_from_checkpoint(path, map_location="cpu", weights_only=True)
    slots = {role: type(slot.first).__name__ for role, slot in module.model.slots.items()}
    assert slots == {"encoder": "T5", "decoder": "ALiBi", "cross": "RoPE"}
    weights = module.state_dict()
    assert weights.keys() == content["state_dict"].keys()
    assert all(torch.equal(weights[key], value) for key, value in content["state_dict"].items())


def test_a_checkpoint_carries_what_made_the_run(run: Path) -> None:
    config = read_config(run / "checkpoints" / "last.ckpt")
    given = run_parts(checked(*CONFIG))
    assert {key: config[key] for key in given} == given
    assert (config["max_steps"], config["trained_length"]) == (2, 10)
    corpus = build_corpus(given["data"])
    assert config["vocabulary"]["source"] == corpus.source_vocabulary.state()


@pytest.mark.parametrize("content", [b"", b"no checkpoint", b"PK\x03\x04 cut off", None, {"state_dict": {}}])
def test_other_files_are_no_checkpoints(tmp_path: Path, content: Any) -> None:
    path = tmp_path / "last.ckpt"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        torch.save(content, path)
    with pytest.raises(UserError, match=r"last.ckpt is not a relformer checkpoint"):
        read_config(path)


def test_code_in_a_checkpoint_is_not_run(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "trapped"),)

    torch.save({"hyper_parameters": {"config": Trap()}}, tmp_path / "last.ckpt")
    with pytest.raises(UserError, match="not a relformer checkpoint"):
        read_config(tmp_path / "last.ckpt")
    assert not (tmp_path / "trapped").exists()


def test_which_checkpoint_resume_means(run: Path, tmp_path: Path) -> None:
    last = run / "checkpoints" / "last.ckpt"
    assert where_to_start("auto", run) == Start(last)
    assert where_to_start(None, tmp_path) == Start(None)
    assert where_to_start(str(last), tmp_path) == Start(last)
    for resume in (None, str(tmp_path / "other.ckpt")):
        with pytest.raises(UserError, match="already holds a run; continue it with resume=auto, or choose another"):
            refuse_occupied(resume, run)
    for resume in ("auto", str(last)):
        refuse_occupied(resume, run)
    refuse_occupied(None, tmp_path)


def test_no_command_reads_a_damaged_checkpoint(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    folder = tmp_path / "run" / "checkpoints"
    content = bytearray((folder / "last.ckpt").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "last.ckpt").write_bytes(content)
    assert torch.load(folder / "last.ckpt", weights_only=True)["global_step"] == 2
    with pytest.raises(UserError, match=r"last.ckpt is damaged: .*; .*best.ckpt \(step 2\) is good"):
        open_run(str(tmp_path / "run"), [])
    assert open_run(str(tmp_path / "run"), ["eval.checkpoint=best_val"]).path == folder / "best.ckpt"


def test_a_run_opens_with_the_checkpoint_that_it_reports(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    folder = tmp_path / "run" / "checkpoints"
    content = torch.load(folder / "last.ckpt", weights_only=True)
    content["hyper_parameters"]["config"]["eval"]["checkpoint"] = "best_val"
    AtomicCheckpointIO().save_checkpoint(content, folder / "last.ckpt")
    found = {each: open_run(str(each), []).path.name for each in (run, tmp_path / "run")}
    assert found == {run: "last.ckpt", tmp_path / "run": "best.ckpt"}
    assert open_run(str(tmp_path / "run"), ["eval.checkpoint=last"]).path == folder / "last.ckpt"
    assert open_run(str(folder / "last.ckpt"), []).path == folder / "last.ckpt"
