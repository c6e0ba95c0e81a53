"""What came of a run: the last and the best checkpoint evaluated, `metrics.json`, tables, pictures and the page."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from omegaconf import DictConfig
from torch import Tensor

from relformer.data.datamodule import DataModule
from relformer.data.encoded import Corpus
from relformer.errors import RunError
from relformer.evaluation.generation import Output, generation_figures
from relformer.evaluation.report import caution, print_generation, print_table, write_outputs, write_report
from relformer.evaluation.summary import summarise
from relformer.report.pages import PAGE, report_run
from relformer.training.callbacks.best_checkpoint import BestCheckpoint
from relformer.training.callbacks.finite_steps import FiniteSteps
from relformer.training.callbacks.throughput import Throughput, said_of_speed
from relformer.training.loggers import run_hint, sync_hint
from relformer.training.module import Seq2SeqModule
from relformer.training.origin import origin_parts
from relformer.training.resume import acting_callbacks
from relformer.training.sealing import LAST, known_step
from relformer.training.sharding import load_weights

logger = logging.getLogger("relformer")


def report(
    trainer: pl.Trainer, module: Seq2SeqModule, data: DataModule, config: DictConfig, run_dir: Path
) -> dict[str, Any]:
    """Evaluate the last and the best checkpoint, print the table and write the files; the headline is
    `eval.checkpoint`."""
    keepers = [c for c in trainer.callbacks if isinstance(c, BestCheckpoint)]  # type: ignore[attr-defined]
    headline, side = config.eval.checkpoint, data.corpus.length_side
    generate = config.eval.generate
    steps = {"last": trainer.global_step}
    validate(trainer, module, data)
    for keeper in keepers:
        keeper.keep(trainer)  # the last step is validated too, whatever eval.every says
        if (best := known_step(keeper.path)) is not None:
            steps["best_val"] = best
        elif headline == "best_val":
            raise RunError(
                f"there is no {keeper.path} to report: the disk was full; make room, then go on with resume=auto"
            )
    trainer.save_checkpoint(run_dir / "checkpoints" / LAST, weights_only=False)
    rows = {"last": test(trainer, module, data, generate and steps[headline] == steps["last"])}
    written = dict(module.generated)
    for keeper in keepers if "best_val" in steps else []:
        rows["best_val"] = rows["last"]
        if steps["best_val"] != steps["last"]:
            content = torch.load(keeper.path, map_location="cpu", weights_only=True)
            load_weights(module, content["state_dict"])
            module.log_prefix = "best_val/"
            rows["best_val"] = evaluate(trainer, module, data, generate and headline == "best_val")
            written = module.generated if headline == "best_val" else written
    skipping = [c for c in trainer.callbacks if isinstance(c, FiniteSteps)]  # type: ignore[attr-defined]
    throughput = [c for c in trainer.callbacks if isinstance(c, Throughput)]  # type: ignore[attr-defined]
    speed = throughput[0].figures if throughput else {"seconds_per_step": None}
    metrics = {
        "name": config.name,
        "config": {
            k: part for k, part in module.config.items() if k not in ("vocabulary", "fingerprint", "initialised")
        }
        | origin_parts(module.config)
        | acting_callbacks(config),
        "initialised": module.config.get("initialised"),
        "checkpoint": headline,
        "trained_length": data.corpus.trained_length,
        "tuned_on_test": config.sweep.objective.startswith("test"),
        "matched": config.matched,
        "skipped_steps": skipping[0].skipped if skipping else None,
        "cost": {
            "parameters": sum(p.numel() for p in module.model.parameters()),
            "position_parameters": module.model.position_parameters(),
            **speed,
            "cpu_seconds": throughput[0].cpu_seconds if throughput else None,
        },
        "checkpoints": {
            name: {"step": steps[name], **{key: summarise(r, side) for key, r in found.items()}}
            for name, found in rows.items()
        },
        "generated": (generated := generated_figures(written, module, data.corpus, rows[headline])),
    }
    if trainer.is_global_zero:
        tests = {name: r for name, r in rows[headline].items() if name.startswith("test_")}
        write_report(rows[headline], metrics, config.name, data.corpus.trained_length, run_dir, side)
        report_run(run_dir)
        print_table(tests, f"{config.name}, checkpoint {headline} (step {steps[headline]})", side)
        write_outputs(written, data.corpus, run_dir)
        print_generation({name: generated[name] for name in tests if name in generated}, config.decoding)
        logger.info("%s", closing(rows, steps, caution(tests, module.config["data"]), run_dir, config, speed))
    return metrics


def evaluate(trainer: pl.Trainer, module: Seq2SeqModule, data: DataModule, generate: bool) -> dict[str, Tensor]:
    """Outcomes of every validation and test set, gathered from all ranks. Where `generate`, the test sets are decoded
    as well, into `module.generated`."""
    validate(trainer, module, data)
    return test(trainer, module, data, generate)


def validate(trainer: pl.Trainer, module: Seq2SeqModule, data: DataModule) -> None:
    module.rows = {}
    if data.corpus.evaluation_sets("val"):
        trainer.validate(module, datamodule=data, verbose=False)


def test(trainer: pl.Trainer, module: Seq2SeqModule, data: DataModule, generate: bool) -> dict[str, Tensor]:
    """See `evaluate`, of which it is the second half."""
    module.generate_all, module.generated = generate, {}
    if data.corpus.evaluation_sets("test"):
        trainer.test(module, datamodule=data, verbose=False)
    module.generate_all = False
    return dict(module.rows)


def generated_figures(
    written: Mapping[str, list[Output]], module: Seq2SeqModule, corpus: Corpus, rows: dict[str, Tensor]
) -> dict[str, Any]:
    """Of every set that was decoded whole."""
    tokenize = module.config["eval"]["bleu_tokenize"]
    return {
        name: generation_figures(outputs, corpus.sets[name], module.target_vocabulary, rows[name], tokenize=tokenize)
        for name, outputs in written.items()
        if len(outputs) == len(corpus.sets[name])
    }


def closing(
    rows: dict[str, dict[str, Tensor]],
    steps: dict[str, int],
    warning: str | None,
    run_dir: Path,
    config: DictConfig,
    speed: Mapping[str, float | None],
) -> str:
    lines = []
    for name, found in rows.items():
        exact = "   ".join(f"{key} {summarise(r)['exact_match']:.3f}" for key, r in found.items())
        lines.append(f"{name:<9}(step {steps[name]})   exact match   {exact}")
    if fast := said_of_speed(speed):
        lines.append(f"training    {fast}")
    if warning:
        lines.append(warning)
    lines += [
        f"figures     {run_dir / 'metrics.json'}",
        f"curve       {run_dir / 'length_curve.png'}",
        f"page        {run_dir / PAGE}",
        f"further     relformer evaluate {run_dir}",
    ]
    if config.logger.name == "wandb":
        lines.append(f"browse      {run_hint(Path(config.paths.log_dir))}")
        if parts := sync_hint(Path(config.paths.log_dir), run_dir):
            lines.append(f"upload      {parts}   (the parts of this run, the oldest first)")
    return "\n".join(lines)
