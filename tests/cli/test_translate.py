"""`relformer translate`: as many lines out as in, in order, whatever they hold; and it ends cleanly."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from relformer.training.sealing import read_step
from tests.cli.runs import environment, metrics, refused, relformer
from tests.forks import ROOT, Forked

NASTY = "a b c\n\n   \nthe red house\r\nemoji \U0001f468‍\U0001f469 here\nsep\u2028arated\n" + "word " * 400 + "\nlast"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a run on text, of few steps, that kept checkpoints for averaging."""
    made = tmp_path_factory.mktemp("translate")
    pairs = [(f"the {c} {t} number {n}", f"{n} {t} {c}") for n in range(10) for c in ("red", "blue") for t in "xyz"]
    for place, side in enumerate(("en", "xx")):
        (made / f"train.{side}").write_text("".join(f"{pair[place]}\n" for pair in pairs))
    options = ("data.tokenizer.size=300", "data.held_out=6", "trainer.accelerator=cpu", "trainer.max_steps=6")
    files = ("data.train.source=train.en", "data.train.target=train.xx", "hydra.run.dir=run", "logger=csv")
    keep = ("callbacks=averaging", "callbacks.recent_checkpoints.every_n_train_steps=2", "eval.every=2")
    done = relformer("train", "data=text_files", *options, *files, *keep, cwd=made).succeeded()
    assert "bleu" in done.out and "BLEU" in done.out and "reached the limit" in done.out
    return made


def test_one_line(folder: Path) -> None:
    command = [sys.executable, "-m", "relformer", "translate", "run"]
    env = environment(PYTHONPATH=str(ROOT))
    done = subprocess.run(command, cwd=folder, env=env, input=b"the red x number 3\n", capture_output=True, check=True)
    assert done.stdout.count(b"\n") == 1


@pytest.mark.parametrize(
    "options",
    [(), ("decoding=beam",), pytest.param(("pool=2", "devices=2"), marks=pytest.mark.slow), ("max_tokens=1",)],
)
def test_as_many_lines_as_were_given(folder: Path, options: tuple[str, ...]) -> None:
    (folder / "nasty.txt").write_bytes(NASTY.encode())
    name = f"out{len(options)}{'-'.join(options)}".replace("=", "")
    done = relformer("translate", "run", "input=nasty.txt", f"output={name}", *options, cwd=folder).succeeded()
    lines = (folder / name).read_bytes().decode().split("\n")
    assert len(lines) == 9 and lines[-1] == "" and "\r" not in "".join(lines)
    assert lines[1] == lines[2] == ""
    assert "translated 8 lines, 2 of them blank" in done.error
    if not options:
        assert "outputs reached the limit" in done.error


def test_scores_and_the_n_best(folder: Path) -> None:
    (folder / "two.txt").write_text("the red x\n\nthe blue y number 3\n")
    options = ("input=two.txt", "decoding.beams=3", "decoding.n_best=2")
    assert "decoding.n_best=2; use tsv or jsonl" in refused("translate", "run", *options, cwd=folder)
    tsv = relformer("translate", "run", *options, "format=tsv", cwd=folder).succeeded().out
    rows = [row.split("\t") for row in tsv.splitlines()]
    assert [row[:2] for row in rows] == [["1", "1"], ["1", "2"], ["2", "1"], ["3", "1"], ["3", "2"]]
    assert float(rows[0][2]) >= float(rows[1][2]) and rows[2][2:] == ["", ""]
    text = relformer("translate", "run", *options, "format=jsonl", cwd=folder).succeeded().out
    records = [json.loads(line) for line in text.splitlines()]
    assert [len(record["outputs"]) for record in records] == [2, 0, 2]
    assert records[0]["outputs"][0]["text"] == rows[0][3] and records[2]["source"] == "the blue y number 3"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("input=nothing.txt",), "nothing.txt"),
        (("input=latin.txt",), "latin.txt:2"),
        (("decoding.beams=0",), "decoding.beams=0 must be at least 1"),
        (("format=xml",), "format='xml' is not one of text, tsv, jsonl"),
        (("devices=two",), "devices: 'two' is not an integer"),
        (("average=9",), "average=9 is more than the 3 checkpoints"),
        (("encoding=alibi",), "can't change after training"),
        (("data=multi30k",), "changes nothing in translate"),
        (("input=latin.txt", "data.charset=cp1252"), "changes nothing in translate"),
        (("imput=two.txt",), "did you mean 'input'?"),
        (("input",), "'input' needs a value"),
        (("input=latin.txt",), "pass charset=cp1252\n"),
        (("charset=utf-16",), "error: charset='utf-16'"),
        (("input=two.txt", "devices=2", "decoding.beams=0"), "decoding.beams=0 must be at least 1"),
    ],
)
def test_a_fault_is_one_sentence(folder: Path, options: tuple[str, ...], said: str) -> None:
    (folder / "latin.txt").write_bytes("fine\nschön\n".encode("latin-1"))
    (folder / "two.txt").write_text("a\nb\n")
    before = sorted(path.name for path in folder.iterdir())
    assert said in refused("translate", "run", *options, "output=fault.txt", cwd=folder)
    assert sorted(path.name for path in folder.iterdir()) == before


def test_where_the_output_goes(folder: Path) -> None:
    (folder / "two.txt").write_text("the red x\n\nthe blue y number 3")
    said = relformer("translate", "run", "input=two.txt", "output=-", cwd=folder).succeeded().out
    assert said.count("\n") == 3
    (folder / "link.txt").symlink_to("behind.txt")
    relformer("translate", "run", "input=two.txt", "output=link.txt", cwd=folder).succeeded()
    assert (folder / "link.txt").is_symlink() and (folder / "behind.txt").read_text() == said
    relformer("translate", "run", "input=two.txt", "output=two.txt", cwd=folder).succeeded()
    assert (folder / "two.txt").read_text() == said
    assert "output=. is a folder" in refused("translate", "run", "input=behind.txt", "output=.", cwd=folder)
    os.mkfifo(folder / "pipe")
    with subprocess.Popen(["cat", "pipe"], cwd=folder, stdout=subprocess.PIPE) as reader:
        relformer("translate", "run", "input=behind.txt", "output=pipe", cwd=folder).succeeded()
        assert reader.stdout is not None and reader.stdout.read().count(b"\n") == 3
    assert (folder / "pipe").is_fifo()


def test_an_interrupt_keeps_what_is_done(folder: Path) -> None:
    (folder / "long.txt").write_text("the red x number 3\n" * 20000)
    command, said = ("translate", "run", "input=long.txt", "output=cut.txt", "pool=20"), folder / "said"
    process = Forked(command, folder, environment(PYTHONPATH=str(ROOT)), said, said)
    end = time.monotonic() + 240
    while not any(path.stat().st_size for path in folder.glob(".cut*.tmp*")):
        assert process.poll() is None and time.monotonic() < end, said.read_text()
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    code, error = process.wait(), said.read_text()
    assert code == 130 and "interrupted;" in error and "Traceback" not in error
    lines = (folder / "cut.txt").read_text().split("\n")
    assert lines[-1] == "" and 0 < len(lines) - 1 < 20000
    assert f"interrupted; {len(lines) - 1:,} lines are translated" in error
    assert not list(folder.glob(".cut*"))


def test_a_reader_that_leaves_ends_it(folder: Path) -> None:
    (folder / "long.txt").write_text("the red x number 3\n" * 3000)
    command = f"{sys.executable} -m relformer translate run input=long.txt pool=10 | head -1"
    env = environment(PYTHONPATH=str(ROOT))
    done = subprocess.run(command, shell=True, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.stdout.count("\n") == 1 and "Traceback" not in done.stderr


@pytest.mark.slow
def test_evaluation_is_the_same_on_two_devices_and_takes_an_average(folder: Path) -> None:
    one = relformer("evaluate", "run", "trainer.accelerator=cpu", "decoding=beam", cwd=folder).succeeded()
    assert "beam search, 5 beams" in one.out and "nrefs:1|bs:1000" in one.out
    first = newest(folder)
    relformer(
        "evaluate", "run", "trainer.accelerator=cpu", "decoding=beam", "trainer.devices=2", cwd=folder
    ).succeeded()
    second = newest(folder)
    assert first != second
    mine, theirs = metrics(first)["generated"], metrics(second)["generated"]
    assert mine == theirs and mine["test_iid"]["n"] == 3 and "bleu" in mine["test_iid"]
    outputs = [json.loads(line) for line in (first / "outputs.jsonl").read_text().splitlines()]
    assert [record["index"] for record in outputs] == list(range(3)) and outputs[0]["source"].startswith("the ")
    mean = relformer("evaluate", "run", "trainer.accelerator=cpu", "average=3", cwd=folder).succeeded()
    assert "average of 3 checkpoints to (step 6)" in mean.out
    kept = sorted((folder / "run" / "checkpoints").glob("recent-*.ckpt"), key=read_step)
    assert [read_step(path) for path in kept] == [2, 4, 6]
    best = ("average=2", "eval.checkpoint=best_val", "input=long.txt", "output=best.txt")
    (folder / "long.txt").write_text("the red x\n")
    relformer("translate", "run", *best, cwd=folder).succeeded()


def newest(folder: Path) -> Path:
    return max((folder / "run" / "evaluations").iterdir(), key=os.path.getmtime)
