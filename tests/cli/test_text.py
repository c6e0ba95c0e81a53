"""Text through the real command: what it says, what it leaves, what it does again and what it does not."""

from pathlib import Path

import pytest

from relformer.training.resume import read_config
from tests.cli.runs import losses, metrics, refused, relformer, results

COLOURS = ["red", "green", "blue", "black"]
THINGS = ["house", "tree", "boat", "dog", "cat"]
TEXT = (
    "data=text_files",
    "data.tokenizer.size=300",
    "trainer.accelerator=cpu",
    "trainer.log_every_n_steps=1",
    "trainer.max_steps=3",
    "logger=csv",
    "hydra.run.dir=run",
)
FILES = (
    "data.train.source=train.en",
    "data.train.target=train.xx",
    "data.val.file=val.tsv",
    "data.test.file=test.jsonl",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    pairs = [(f"the {c} {t} number {n}", f"{n} {t} {c}") for n in range(10) for c in COLOURS for t in THINGS]
    (made / "train.en").write_text("".join(f"{s}\n" for s, _ in pairs))
    (made / "train.xx").write_text("".join(f"{t}\n" for _, t in pairs))
    (made / "val.tsv").write_text("source\ttarget\nthe red cat number 77\t77 cat red\n")
    (made / "test.jsonl").write_text('{"source": "the blue dog number 88", "target": "88 dog blue"}\n')
    return made


def test_text_trains_and_is_evaluated_without_its_training_files(folder: Path) -> None:
    env = {"RELFORMER_CACHE": str(folder / "cache")}
    first = relformer("train", *TEXT, *FILES, cwd=folder, env=env).succeeded()
    for said in (
        "trained a tokenizer on the source and target of training in",
        "tokenised train.en + train.xx: 200 pairs",
    ):
        assert said in first.error
    for said in ("pairs    train 200, val_iid 1, test_iid 1", "in one vocabulary", "padding; 3 steps are"):
        assert said in first.out
    run = folder / "run"
    state = read_config(run / "checkpoints" / "last.ckpt")["vocabulary"]
    assert state["source"]["tokenizer"] == (run / "tokenizer.json").read_text() and state["target"] is None
    whole = losses(run)
    again = relformer("train", *TEXT, *FILES, "trainer.max_steps=6", "resume=auto", cwd=folder, env=env).succeeded()
    assert "tokenis" not in again.error + again.out and "trained a tokenizer" not in again.error
    assert {step: loss for step, loss in losses(run).items() if step < 3} == whole
    (folder / "train.xx").write_text((folder / "train.xx").read_text().replace("cat", "kitten"))
    changed = relformer("train", *TEXT, *FILES, "trainer.max_steps=9", "resume=auto", cwd=folder, env=env)
    assert changed.code == 2 and "the training data are not those that" in changed.error
    for name in ("train.en", "train.xx"):
        (folder / name).unlink()
    done = relformer("evaluate", "run", cwd=folder, env=env).succeeded()
    assert "test_iid" in done.out
    figures = metrics(next((run / "evaluations").iterdir()))
    assert figures["test_iid"]["loss"] == pytest.approx(results(run)["last"]["test_iid"]["loss"], abs=1e-6)


@pytest.mark.slow
def test_two_devices_see_every_pair_once(folder: Path) -> None:
    options = ("trainer.max_epochs=1", "trainer.devices=2", "data.max_tokens=64")
    done = relformer("train", *TEXT[:-1], *FILES, *options, "hydra.run.dir=two", "trainer.max_steps=900", cwd=folder)
    assert "are 1 epochs" in done.succeeded().out
    one = relformer("train", *TEXT[:-1], *FILES, "trainer.max_epochs=1", "data.max_tokens=128", "hydra.run.dir=one",
                    "trainer.max_steps=900", cwd=folder).succeeded()  # fmt: skip
    assert "are 1 epochs" in one.out
    mine, theirs = losses(folder / "one"), losses(folder / "two")
    assert mine.keys() == theirs.keys() and len(mine) > 10
    assert {step: float(x) for step, x in mine.items()} == pytest.approx(
        {step: float(x) for step, x in theirs.items()}, rel=1e-4
    )


def test_the_data_are_shown_before_training(folder: Path) -> None:
    (folder / "val.tsv").write_text("source\ttarget\nthe red house number 0\t0 house red\n\nx\t\n")
    done = relformer("data", *TEXT[:2], *FILES, "data.most_dropped=0.5", "data.tokenizer.kind=word", cwd=folder)
    out = done.succeeded().out
    assert "│ train    │   200 │" in out and "source lengths" in out and "target lengths" in out
    assert "1 pair stands in both train and val_iid" in out
    assert "val_iid: 1 pair with an empty target left out (first: val.tsv:4)" in out or "empty" in out
    assert "tokens are not in the vocabulary" in out
    assert not (folder / "runs").exists()


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (("data.train.source=missing.en",), "data.train.source: {}/missing.en does not exist; did you mean"),
        (("data.train.source=val.tsv", "data.train.target=train.xx"), "lines"),
        (("data.val.file=broken.jsonl",), "broken.jsonl:2:"),
        (("data.charset=utf-9",), "data.charset='utf-9'"),
        (("data.max_length=2",), "have more than data.max_length=2 tokens"),
        (("data.max_tokens=3",), "data.max_tokens=3 is less than the longest training pair"),
        (("data.tokenizer.size=20",), "data.tokenizer.size=20"),
        (("data.tokenizer.file=train.en",), "train.en is not JSON"),
        (("data.held_out=0",), "data.held_out=0 must be at least 1"),
    ],
)
def test_a_fault_ends_in_one_sentence_and_leaves_nothing(folder: Path, overrides: tuple[str, ...], said: str) -> None:
    (folder / "broken.jsonl").write_text('{"source": "a", "target": "b"}\n{"source": "a"}\n')
    assert said.format(folder) in refused("train", *TEXT, *FILES, *overrides, cwd=folder)
    assert not (folder / "run").exists()


def test_denoising_needs_no_file(folder: Path) -> None:
    done = relformer("train", "data=denoising", "data.tokenizer.size=500", *TEXT[2:], cwd=folder).succeeded()
    assert "Python's manual" in done.error and "exact match" in done.out
