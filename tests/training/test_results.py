"""What came of a run: text is that of the checkpoint that the run reports, decoded whole, whichever was best."""

import json
from pathlib import Path

import pytest

from relformer.training.evaluate import evaluate_run
from relformer.training.run import train
from tests.config.composed import checked, without_hydra

LINES = 40
SIDES = {"source": "en", "target": "de"}


@pytest.mark.parametrize(
    ("rate", "differ"), [(100.0, True), (0.001, False)], ids=["the best is older", "the last is best"]
)
@pytest.mark.parametrize("headline", ["last", "best_val"])
def test_text_is_of_the_reported_checkpoint(headline: str, rate: float, differ: bool, tmp_path: Path) -> None:
    """More batches than are decoded on the way; a rate that ruins the model makes the first validation the best."""
    for side in ("en", "de"):
        (tmp_path / side).write_text("".join(f"{'a b' if n % 2 else 'b'} {'c ' * (n % 5)}d\n" for n in range(LINES)))
    files = [f"data.{of}.{name}={tmp_path / side}" for of in ("train", "val", "test") for name, side in SIDES.items()]
    run = tmp_path / "run"
    options = ("data=text_files", *files, "data.tokenizer.kind=word", "data.eval_batch_size=4", "data.max_tokens=64")
    steps = (
        "trainer.max_steps=4",
        "eval.every=1",
        "scheduler=constant",
        f"optimizer.lr={rate}",
        "trainer.accelerator=cpu",
    )
    train(without_hydra(checked(*options, *steps, f"eval.checkpoint={headline}", "logger=csv", f"paths.run_dir={run}")))
    metrics = json.loads((run / "metrics.json").read_text())
    at = {name: figures["step"] for name, figures in metrics["checkpoints"].items()}
    assert (at["best_val"] < at["last"] == 4) == differ
    assert metrics["generated"]["test_iid"]["n"] == LINES and "bleu" in metrics["generated"]["test_iid"]
    assert len(said := texts(run / "outputs.jsonl")) == LINES
    if differ:
        assert said == texts(evaluated(run, headline) / "outputs.jsonl")


def texts(path: Path) -> list[str]:
    lines = map(json.loads, path.read_text().splitlines())
    return [line["output"] for line in lines if line["set"] == "test_iid"]


def evaluated(run: Path, checkpoint: str) -> Path:
    evaluate_run(str(run), [f"eval.checkpoint={checkpoint}", "trainer.accelerator=cpu"])
    (folder,) = (run / "evaluations").iterdir()
    return folder
