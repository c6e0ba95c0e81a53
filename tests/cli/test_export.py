"""`relformer export` and `relformer.load`: the folder is the run, bit for bit."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import relformer
from relformer import UserError
from relformer.export.command import export_command
from relformer.export.folder import written_vocabularies
from relformer.training.exported import state_of
from tests.cli.runs import Ended, content, metrics
from tests.cli.runs import relformer as command

LINES = ["a b c", "", "d e f g"]
SHORT = ("data.examples_per_length=5", "data.test.max_length=14")


@pytest.fixture(scope="module")
def folder(trained: tuple[Path, Ended], tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("export") / "mine"
    said = command("export", str(trained[0]), f"to={made}", cwd=made.parent).succeeded().out
    assert "translate   relformer translate" in said
    assert [path.name for path in made.parent.iterdir()] == ["mine"]
    return made


def test_the_folder_is_the_run(trained: tuple[Path, Ended], folder: Path) -> None:
    run, mine = relformer.load(trained[0]), relformer.load(folder)
    states = [loaded.model.state_dict() for loaded in (run, mine)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert run.translate(LINES) == mine.translate(LINES) and mine.translate(LINES)[1] == ""
    assert mine.config == run.config and mine.config["seed"] == 0
    assert run.evaluate(*SHORT) == mine.evaluate(*SHORT)


def test_every_command_reads_it(trained: tuple[Path, Ended], folder: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("\n".join(LINES) + "\n")
    kept = shutil.copytree(folder, tmp_path / "mine")
    outputs = []
    for run in (trained[0], kept):
        outputs.append(command("translate", str(run), "input=in.txt", cwd=tmp_path).succeeded().out)
    assert outputs[0] == outputs[1] and outputs[0].count("\n") == 3
    said = command("evaluate", "mine", *SHORT, cwd=tmp_path).succeeded().out
    assert "mine, model checkpoint (step 12)" in said
    again = command("export", "mine", "to=again", cwd=tmp_path).succeeded()
    assert again.code == 0
    for name in ("model.safetensors", "vocabulary.json"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()


def test_the_card(trained: tuple[Path, Ended], folder: Path) -> None:
    card = (folder / "README.md").read_text()
    config = relformer.load(folder).config
    assert f"`{config['fingerprint']}`" in card and "| seed | 0 (weights, order, dropout), 0 (data) |" in card
    assert "relformer train data=reverse" in card and "`t5 num_buckets=32 max_distance=128" in card
    (row,) = [line for line in card.splitlines() if line.startswith("| 13 |")]
    figures = metrics(trained[0])["checkpoints"]["last"]["test_longer"]["by_length"][0]
    assert row == (
        f"| 13 | {figures['n']} | {figures['exact_match']:.3f} | {figures['token_accuracy']:.3f} | "
        f"{figures['loss']:.4f} |"
    )


def test_another_checkpoint(trained: tuple[Path, Ended], tmp_path: Path) -> None:
    best = command("export", str(trained[0]), "to=best", "eval.checkpoint=best_val", cwd=tmp_path).succeeded()
    assert best.code == 0
    expected = relformer.load(trained[0], "eval.checkpoint=best_val").model.state_dict()
    assert all(torch.equal(t, expected[n]) for n, t in relformer.load(tmp_path / "best").model.state_dict().items())
    with pytest.raises(UserError, match="was exported with one; leave it out"):
        relformer.load(tmp_path / "best", "eval.checkpoint=best_val")


def test_a_taken_folder_stays_as_it_is(trained: tuple[Path, Ended], folder: Path) -> None:
    before = content(folder)
    refused = command("export", str(trained[0]), f"to={folder}", cwd=folder.parent)
    assert refused.code == 2 and "exists already" in refused.error and content(folder) == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "export needs a folder"),
        (("to=x", "format=gguf"), "format='gguf' is not one of folder, torch_export"),
        (("to=x", "length=9"), "length is an option of format=torch_export"),
        (("to=x", "format=torch_export", "length=one"), "length='one' must be a whole number"),
        (("to=x", "encoding=alibi"), "can't change after training"),
    ],
)
def test_a_fault_is_one_sentence(trained: tuple[Path, Ended], tmp_path: Path, options: Any, said: str) -> None:
    here = [option.replace("to=x", f"to={tmp_path / 'x'}") for option in options]
    with pytest.raises(UserError, match=said):
        export_command([str(trained[0]), *here])
    assert not list(tmp_path.iterdir())


def test_damage_is_seen(folder: Path, tmp_path: Path) -> None:
    kept = shutil.copytree(folder, tmp_path / "kept")
    weights = kept / "model.safetensors"
    bits = bytearray(weights.read_bytes())
    bits[-9] ^= 1
    weights.write_bytes(bits)
    with pytest.raises(UserError, match="SHA-256 is not the one in config"):
        relformer.load(kept)
    settings = kept / "config.json"
    for broken, said in (("{", "is not what relformer export wrote"), ('{"relformer_export": 9}', "has layout 9")):
        settings.write_text(broken)
        with pytest.raises(UserError, match=said):
            relformer.load(kept)


def test_a_vocabulary_from_outside_the_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    kept = shutil.copytree(folder, tmp_path / "kept")
    settings = json.loads((kept / "config.json").read_text())
    settings["vocabulary"]["source"] = {"file": "../secret.json"}
    (kept / "config.json").write_text(json.dumps(settings))
    (tmp_path / "secret.json").write_text("[]")
    with pytest.raises(UserError, match="can't be read"):
        relformer.load(kept)


@pytest.mark.parametrize(
    "states",
    [
        {"source": ["a", "b"], "target": None},
        {"source": ["a", "b"], "target": ["ü"]},
        {"source": {"tokenizer": '{"é": 1}', "sentinels": 3}, "target": None},
        {"source": {"tokenizer": '{"a": 1}'}, "target": {"tokenizer": '{"b": 2}'}},
    ],
)
def test_vocabularies_come_back(states: dict[str, Any], tmp_path: Path) -> None:
    entries = dict(written_vocabularies(states, tmp_path))
    assert {side: state_of(tmp_path / "model.safetensors", entry) for side, entry in entries.items()} == states


def test_looking_inside(folder: Path) -> None:
    model = relformer.load(folder)
    trace = model.trace("a b c", "c b a")
    assert trace.source[-1] == "<eos>" and trace.target == ("<bos>", "c", "b", "a") and len(trace) == 6
    call = trace["cross", 1]
    assert call.queries == trace.target and call.keys == trace.source and call.weights.shape[1:] == (4, len(call.keys))
    assert len(model.trace("a b c").target) >= 1
    with pytest.raises(KeyError, match="no call"):
        trace["cross", 2]
    with pytest.raises(UserError, match="token 'Q' is not in the vocabulary"):
        model.trace("Q")


def test_what_a_loaded_model_refuses(folder: Path) -> None:
    model = relformer.load(folder)
    for call, said in (
        (lambda: model.translate("a b"), "a list of lines, not one string"),
        (
            lambda: model.translate(["a"], beam=3),
            r"decoding\.beam=3 is not an option of decoding; did you mean 'beams'",
        ),
        (lambda: model.translate(["a"], beams=0), r"decoding\.beams=0 must be at least 1"),
        (lambda: model.evaluate(set="test_lid"), "no set 'test_lid'; did you mean 'test_iid'"),
        (lambda: model.evaluate("model.width=3"), "can't change after training"),
        (lambda: relformer.load(folder.parent), "is not a run"),
    ):
        with pytest.raises(UserError, match=said):
            call()  # type: ignore[no-untyped-call]


def test_one_set_and_the_weights_as_they_are(folder: Path) -> None:
    model = relformer.load(folder)
    figures = model.evaluate(*SHORT, set="test_iid")
    assert list(figures) == ["test_iid"] and figures["test_iid"]["by_length"]
    with torch.no_grad():
        for parameter in model.model.parameters():
            parameter.zero_()
    assert model.evaluate(*SHORT, set="test_iid")["test_iid"]["loss"] != figures["test_iid"]["loss"]
