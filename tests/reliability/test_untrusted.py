"""Nothing that comes with a checkpoint, a data file or a name runs code, reads secrets or leads elsewhere."""

import ast
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import relformer
from relformer.cli import main
from relformer.config import instantiate
from relformer.data.text.notes import Notes
from relformer.data.text.pairs import Files, Reading, open_pairs
from relformer.errors import UserError
from relformer.shipped import refuse_foreign
from relformer.training.trained import open_run
from tests.config.composed import checked, composed
from tests.reliability.small import FAST


class Trap:
    """Makes a folder when its pickle is loaded with its code."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self) -> Any:
        return os.system, (f"mkdir {self.made}",)


def ended(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["relformer", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


@pytest.mark.parametrize(
    ("command", "where"),
    [
        *((command, where) for command in ("evaluate", "translate", "train") for where in ("hyper_parameters", None)),
        *(("evaluate", where) for where in ("state_dict", "optimizer_states", "callbacks", "new")),
    ],
)
def test_the_code_in_a_checkpoint_is_never_run(
    trained: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    where: str | None,
) -> None:
    """Not even where torch's own switch asks for it, or the checkpoint is trusted, which is about code it names."""
    path, made = tmp_path / "last.ckpt", tmp_path / "made"
    content = torch.load(trained / "checkpoints" / "last.ckpt", weights_only=True)
    torch.save(Trap(made) if where is None else content | {where: Trap(made)}, path)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    monkeypatch.chdir(tmp_path)
    arguments = {
        "evaluate": ["evaluate", str(path), "--trust-checkpoint"],
        "translate": ["translate", str(path), f"input={path}"],
        "train": ["train", "data=reverse", *FAST, f"resume={path}"],
    }[command]
    assert ended(monkeypatch, *arguments) == 2
    error = capsys.readouterr().err
    assert "last.ckpt" in error and "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD is ignored" in error
    assert not made.exists()
    if command == "train":
        assert not (tmp_path / "runs").exists()


def test_a_trap_would_be_sprung(tmp_path: Path) -> None:
    """Or the test above shows nothing."""
    torch.save(Trap(tmp_path / "made"), tmp_path / "last.ckpt")
    torch.load(tmp_path / "last.ckpt", weights_only=False)
    assert (tmp_path / "made").exists()


def test_every_load_of_the_package_leaves_code_out() -> None:
    """`torch.load` and what passes on to it say `weights_only=True`; no `np.load` may unpickle; nothing else unpickles
    at all."""
    root = Path(relformer.__file__).parent
    loads = {"torch.load", "Seq2SeqModule.load_from_checkpoint", "trainer.fit"}
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {alias.name for alias in node.names}
                assert not names & {"pickle", "dill", "joblib", "shelve", "marshal", "load_pickle"}, path
            if not isinstance(node, ast.Call):
                continue
            called, options = ast.unparse(node.func), {k.arg: ast.unparse(k.value) for k in node.keywords}
            if called in loads:
                assert options.get("weights_only") == "True", f"{path}:{node.lineno}"
            if called.endswith("np.load"):
                assert options.get("allow_pickle", "False") == "False", f"{path}:{node.lineno}"


TARGETS = [
    *("torch.load", "torch.hub.load", "numpy.load", "pandas.read_pickle", "builtins.getattr", "builtins.eval"),
    *("os.system", "subprocess.run", "code.InteractiveInterpreter", "hostile.Encoding", "relformer.cli.main"),
    *("relformer.files.write_text", "relformer.training.resume.torch.load", "relformer.config.hydra_instantiate"),
    *("relformer.encodings", "lightning.pytorch.Trainer", "torch.optim.optimizer.torch.load", "", None, ["os.system"]),
]
PLACES = ["encoding", "cross_encoding", "optimizer", "data", "encoding.parts[0]", "optimizer.lr", "trainer.plugins"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("place", PLACES)
def test_a_stored_config_names_no_foreign_code(place: str, target: Any) -> None:
    node: Any = {"_target_": target, "f": "x"}
    config = stored(place, node)
    imported = set(sys.modules)
    with pytest.raises(UserError, match=r"is code of its own \(.*--trust-checkpoint"):
        refuse_foreign(config)
    assert set(sys.modules) == imported


def stored(place: str, node: Any) -> dict[str, Any]:
    outer, _, inner = place.partition(".")
    if not inner:
        return {outer: node}
    name, list_, _ = inner.partition("[")
    return {outer: {"name": "compose", name: [node] if list_ else node}}


@pytest.mark.parametrize(
    "target",
    ["torch.optim.AdamW", "torch.optim.adamw.AdamW", "relformer.encodings.alibi.ALiBi"],
)
def test_what_runs_are_made_of_may_be_named(target: str) -> None:
    refuse_foreign({"optimizer": {"_target_": target, "lr": 1.0}, "data": {"path": "a $HOME {b}"}})


@pytest.fixture
def hostile(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a checkpoint with a changed configuration, beside a module that leaves a trace when it is imported."""
    folder = tmp_path / "path"
    folder.mkdir()
    (folder / "hostile.py").write_text(f"import os\nos.makedirs({str(tmp_path / 'made')!r}, exist_ok=True)\n")
    monkeypatch.syspath_prepend(folder)

    def make(place: str, **changes: Any) -> str:
        content = torch.load(trained / "checkpoints" / "last.ckpt", weights_only=True)
        content["hyper_parameters"]["config"][place] |= changes
        torch.save(content, tmp_path / "last.ckpt")
        return str(tmp_path / "last.ckpt")

    yield make
    sys.modules.pop("hostile", None)


@pytest.mark.parametrize("command", ["evaluate", "translate", "probe"])
def test_a_hostile_checkpoint_is_refused_by_every_command(
    hostile: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    path = hostile("encoding", _target_="hostile.Encoding")
    assert ended(monkeypatch, command, path, *([f"input={path}"] if command == "translate" else [])) == 2
    assert "the checkpoint's encoding is code of its own (hostile.Encoding)" in capsys.readouterr().err
    assert not (tmp_path / "made").exists()


def test_trust_says_what_it_means(hostile: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = hostile("encoding", _target_="hostile.Encoding")
    with pytest.raises(UserError, match="hostile has no 'Encoding'"):
        open_run(path, ["--trust-checkpoint"])
    assert (tmp_path / "made").exists()
    said = capsys.readouterr().err
    assert "--trust-checkpoint: the checkpoint's encoding is hostile.Encoding; its code is imported and run" in said


def test_a_stored_config_reads_nothing_from_this_machine(hostile: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with pytest.raises(UserError, match=r"the checkpoint's data.label is an interpolation") as fault:
        open_run(hostile("data", label="${oc.env:HF_TOKEN}"), [])
    assert "hf_secret" not in str(fault.value)


def test_a_user_may_name_their_own_code() -> None:
    assert instantiate({"_target_": "collections.Counter", "a": 2}) == {"a": 2}


@pytest.mark.parametrize("name", ["../../x", "/etc/x", "a/b", ".", "..", '""', "'a\tb'", "'a\nb'", "'a\"b'"])
@pytest.mark.parametrize("option", ["name", "data.label"])
def test_a_name_is_one_folder_in_the_log_directory(option: str, name: str) -> None:
    """`data.label` is part of the name that runs have by default."""
    overrides = ["data=text_files"] * (option == "data.label")
    if option == "data.label" and name in (".", "..", '""'):
        pytest.skip("with what follows it a name as any other")
    with pytest.raises(UserError, match=r"name='.*' (is not one folder's name|is no name of a folder|holds '.*')"):
        checked(*overrides, f"{option}={name}")


def test_a_name_that_hydra_can_not_read() -> None:
    with pytest.raises(UserError, match=r"can't be read as key=value; put its value in quotes: name='...'"):
        checked("name=a\x00b")


@pytest.mark.parametrize("name", ["mine", "x y", "überall-3", "a.b_c=1", "..."])
def test_ordinary_names_are_taken(name: str) -> None:
    assert checked(f"name='{name}'").name == name


def test_the_jobs_of_a_sweep_stay_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = composed("name=../../x", "hydra.job.num=0")
    with pytest.raises(Exception, match="is not one folder's name"):
        _ = config.hydra.sweep.subdir
    monkeypatch.chdir(tmp_path)
    inside = tmp_path / "here"
    sweep = (f"hydra.sweep.dir={inside}", "name=../../x,../y", "trainer.max_steps=1")
    assert ended(monkeypatch, "-m", "data=reverse", *FAST, *sweep) == 2
    assert not [path for path in tmp_path.rglob("*") if path.name in ("x", "y", ".hydra")]


@pytest.mark.parametrize("kind", ["npy", "npz", "pt", "pt-old", "pkl"])
def test_data_files_that_could_hold_code_are_refused(tmp_path: Path, kind: str) -> None:
    """By what is in them: train.pt is as well the Portuguese side of a text."""
    path, made = tmp_path / "train.pt", tmp_path / "made"
    trap: Any = Trap(made)
    with path.open("wb") as file:
        if kind == "npy":
            np.save(file, np.array([trap], dtype=object), allow_pickle=True)
        elif kind == "npz":
            np.savez(file, a=np.array([trap], dtype=object))
        elif kind.startswith("pt"):
            torch.save(trap, file, _use_new_zipfile_serialization=kind == "pt")
        else:
            pickle.dump(trap, file)
    with pytest.raises(
        UserError, match=r"train.pt is (a Python pickle|a file of torch.save|an archive of|binary data)"
    ):
        [corpus] = open_pairs(Files(file=str(path)), Reading(), "data.train")
        list(corpus.read(Notes()))
    assert not made.exists()


def test_a_text_in_portuguese_is_no_pickle(tmp_path: Path) -> None:
    (tmp_path / "train.en").write_text("good day\n")
    (tmp_path / "train.pt").write_text("bom dia\n")
    [corpus] = open_pairs(Files("train.en", "train.pt"), Reading(tmp_path), "data.train")
    assert [pair.target for pair in corpus.read(Notes())] == ["bom dia"]
