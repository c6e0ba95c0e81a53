"""A moving average of the weights: what is evaluated at the end is what the checkpoint holds."""

from pathlib import Path

import torch

from relformer.sweeps.job import run_key
from relformer.training.module import Seq2SeqModule
from relformer.training.resume import run_parts
from relformer.training.run import train
from tests.config.composed import checked, without_hydra


def test_a_run_ends_with_its_average(tmp_path: Path) -> None:
    steps = ("trainer.max_steps=12", "eval.every=4", "trainer.accelerator=cpu", "logger=none", "eval.generate=false")
    config = checked("callbacks=ema", "callbacks.ema.decay=0.5", *steps, f"paths.run_dir={tmp_path}")
    metrics = train(without_hydra(config))
    figures = metrics["checkpoints"]["last"]
    assert metrics["config"]["ema"] == {"decay": 0.5, "use_buffers": False}  # a run of its own, to every comparison
    path = tmp_path / "checkpoints" / "last.ckpt"
    content = torch.load(path, weights_only=True)
    module = Seq2SeqModule.load_from_checkpoint(path, map_location="cpu", weights_only=True)
    assert all(torch.equal(value, content["state_dict"][name]) for name, value in module.state_dict().items())
    from relformer.training.evaluate import evaluate_run

    again = evaluate_run(str(tmp_path), ["trainer.accelerator=cpu", "eval.generate=false"])
    for name in ("val_iid", "test_iid", "test_longer"):
        assert again[name]["loss"] == figures[name]["loss"]
    other = checked(*steps, f"paths.run_dir={tmp_path / 'plain'}")
    plain = train(without_hydra(other))["checkpoints"]["last"]
    assert "ema" not in run_parts(other) and run_key(_root_=other) != run_key(_root_=config)
    assert plain["val_iid"]["loss"] != figures["val_iid"]["loss"]
