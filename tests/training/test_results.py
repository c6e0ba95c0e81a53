"""What came of a run: text is that of the checkpoint that the run reports, decoded whole, whichever was best."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from relformer.errors import UserError
from relformer.training.evaluate import evaluate_run
from relformer.training.module import spread
from relformer.training.run import train
from tests.config.composed import checked, without_hydra

LINES = 40
SIDES = {"source": "en", "target": "de"}


def of_text(folder: Path, *more: str) -> dict[str, Any]:
    """A run of four steps on 40 lines, ten batches a set; its `metrics.json`."""
    for side in ("en", "de"):
        (folder / side).write_text("".join(f"{'a b' if n % 2 else 'b'} {'c ' * (n % 5)}d\n" for n in range(LINES)))
    files = [f"data.{of}.{name}={folder / side}" for of in ("train", "val", "test") for name, side in SIDES.items()]
    options = ("data=text_files", *files, "data.tokenizer.kind=word", "data.eval_batch_size=4", "data.max_tokens=64")
    steps = ("trainer.max_steps=4", "eval.every=1", "scheduler=constant", "trainer.accelerator=cpu", "logger=csv")
    train(without_hydra(checked(*options, *steps, *more, f"paths.run_dir={folder / 'run'}")))
    metrics: dict[str, Any] = json.loads((folder / "run" / "metrics.json").read_text())
    return metrics


@pytest.mark.parametrize(
    ("rate", "differ"), [(100.0, True), (0.001, False)], ids=["the best is older", "the last is best"]
)
@pytest.mark.parametrize("headline", ["last", "best_val"])
def test_text_is_of_the_reported_checkpoint(headline: str, rate: float, differ: bool, tmp_path: Path) -> None:
    """A rate that ruins the model makes the first validation the best."""
    metrics = of_text(tmp_path, f"optimizer.lr={rate}", f"eval.checkpoint={headline}")
    run = tmp_path / "run"
    at = {name: figures["step"] for name, figures in metrics["checkpoints"].items()}
    assert (at["best_val"] < at["last"] == 4) == differ
    assert metrics["generated"]["test_iid"]["n"] == LINES and "bleu" in metrics["generated"]["test_iid"]
    assert len(said := texts(run / "outputs.jsonl")) == LINES
    if differ:
        assert said == texts(evaluated(run, headline) / "outputs.jsonl")


def test_what_is_not_decoded_whole_has_no_score(tmp_path: Path) -> None:
    """Validation sets are sampled over all lengths; test sets are decoded at the end, or not at all."""
    metrics = of_text(tmp_path, "eval.generate=false", "eval.generate_batches=2")
    assert metrics["generated"] == {} and not (tmp_path / "run" / "outputs.jsonl").exists()
    header = (tmp_path / "run" / "csv" / "metrics.csv").read_text().splitlines()[0].split(",")
    assert "val/iid/bleu" in header and "test/iid/loss" in header and "test/iid/bleu" not in header
    assert spread(10, 2) == [2, 7] and spread(3, 8) == [0, 1, 2] and spread(0, 2) == spread(4, 0) == []


def test_limits_that_allow_no_output_are_refused_before_training(tmp_path: Path) -> None:
    none = ("decoding.max_length_base=0", "decoding.max_length_factor=0.1")
    with pytest.raises(UserError, match=r"decoding.max_length_factor=0.1 allow no token for a source of \d"):
        of_text(tmp_path, *none)
    assert not (tmp_path / "run").exists()


def test_nothing_is_decoded_where_nothing_ends_an_output(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "relformer"):
        assert of_text(tmp_path, "data.eos=false")["generated"] == {}
    assert "without EOS (data.eos=false) nothing ends an output: none is decoded" in caplog.text


def test_the_training_loss_is_of_all_batches_of_a_step(tmp_path: Path) -> None:
    """Half the batch size twice is the same step, and so the same loss."""
    losses = []
    for parts in (1, 2):
        folder = tmp_path / str(parts)
        small = ("data=copy", "data.max_length=5", f"data.batch_size={16 // parts}", "model.dropout=0")
        steps = ("trainer.max_steps=3", f"trainer.accumulate_grad_batches={parts}", "trainer.log_every_n_steps=1")
        options = (*small, *steps, "trainer.accelerator=cpu", "logger=csv", "eval.generate=false")
        train(without_hydra(checked(*options, f"paths.run_dir={folder}")))
        with (folder / "csv" / "metrics.csv").open() as file:
            losses.append([float(row["train/loss"]) for row in csv.DictReader(file) if row["train/loss"]])
    assert len(losses[0]) == 3 and losses[1] == pytest.approx(losses[0], rel=1e-4)


def test_positions_drawn_in_evaluation_are_drawn_again(tmp_path: Path) -> None:
    """So a run's figures are those of `relformer evaluate`."""
    drawn = ("encoding=randomized", "encoding.max_position=64", "encoding.eval_length=16", "encoding.eval=sample")
    small = ("data=copy", "data.max_length=5", "trainer.max_steps=3", "trainer.accelerator=cpu", "logger=none")
    train(without_hydra(checked(*drawn, *small, "eval.generate=false", f"paths.run_dir={tmp_path}")))
    figures = json.loads((tmp_path / "metrics.json").read_text())["checkpoints"]["last"]
    torch.manual_seed(123)
    again = evaluate_run(str(tmp_path), ["trainer.accelerator=cpu"])
    assert again["test_iid"]["loss"] == figures["test_iid"]["loss"]


def texts(path: Path) -> list[str]:
    lines = map(json.loads, path.read_text().splitlines())
    return [line["output"] for line in lines if line["set"] == "test_iid"]


def evaluated(run: Path, checkpoint: str) -> Path:
    evaluate_run(str(run), [f"eval.checkpoint={checkpoint}", "trainer.accelerator=cpu"])
    (folder,) = (run / "evaluations").iterdir()
    return folder
