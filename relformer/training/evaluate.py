"""Evaluating a finished run again: on other data or lengths, another checkpoint or an average, with another search."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from relformer.config import instantiate, prepare
from relformer.data.corpus import build_corpus, common_options
from relformer.data.datamodule import DataModule
from relformer.data.encoded import Corpus, Side
from relformer.data.vocabulary import stored_pair
from relformer.errors import UserError
from relformer.evaluation.report import caution, print_generation, print_table, write_outputs, write_report
from relformer.evaluation.summary import summarise
from relformer.model import positions_needed
from relformer.redaction import redact_argument
from relformer.registry import did_you_mean
from relformer.training.launch import quiet
from relformer.training.results import evaluate, generated_figures
from relformer.training.trained import TrainedRun, open_run


@dataclass(frozen=True)
class Measured:
    """What a model does on a corpus: outcomes and figures by set. `first` is true on the rank that writes."""

    corpus: Corpus
    rows: dict[str, Tensor]
    generated: dict[str, Any]
    side: Side
    first: bool

    @property
    def figures(self) -> dict[str, dict[str, Any]]:
        """Of every set; `generated` holds those of free-running output, where there was any."""
        found = {name: summarise(r, self.side) for name, r in self.rows.items()}
        return {name: each | {"generated": self.generated.get(name)} for name, each in found.items()}


def evaluate_run(run: str, overrides: list[str]) -> dict[str, Any]:
    """Evaluate a run's checkpoint under changed `data`, `eval`, `decoding`, `attention`, `trainer.accelerator`, or
    another `scaling` of RoPE; `average=5` evaluates the mean of its last five checkpoints.

    Prints the tables by length and writes `metrics.json`, `examples.jsonl`, `outputs.jsonl` and `length_curve.png` to a
    new folder under `<run>/evaluations`.

    Raises:
        UserError: no such run, a key that can't change after training, or lengths the encoding does not have.
    """
    prepare()
    trained = open_run(run, overrides)
    found = measure(trained)
    rows, figures, side = found.rows, found.generated, found.side
    tests = {name: r for name, r in rows.items() if name.startswith("test_")}
    metrics = {
        "checkpoint": trained.path.stem,
        "averaged": trained.averaged,
        "overrides": [redact_argument(override) for override in overrides],
        **{key: summarise(r, side) for key, r in rows.items()},
        "generated": figures,
    }
    if found.first:
        output = free(trained.directory / "evaluations" / time.strftime("%Y%m%d-%H%M%S"))
        write_report(rows, metrics, trained.title, trained.module.config["trained_length"], output, side)
        write_outputs(trained.module.generated, found.corpus, output)
        print_table(tests, ": ".join(filter(None, (trained.title, " ".join(overrides)))), side)
        print_generation({name: figures[name] for name in tests if name in figures}, trained.content["decoding"])
        if warning := caution(tests, trained.content["data"]):
            print(warning)
        print(f"figures     {output / 'metrics.json'}\ncurve       {output / 'length_curve.png'}")
    return metrics


def measure(trained: TrainedRun, only: str | None = None) -> Measured:
    """Evaluate an opened run on its validation and test sets, or on one of them.

    Raises:
        UserError: no such set, or lengths that the encoding does not have.
    """
    quiet()
    module, content = trained.module, trained.content
    module.config |= {"eval": content["eval"], "decoding": content["decoding"]}
    corpus = readable_corpus(trained)
    if only is not None:
        known = [name for kind in ("val", "test") for name in corpus.evaluation_sets(kind)]
        if only not in known:
            raise UserError(f"no set {only!r}{did_you_mean(only, known)}\n  sets: {', '.join(known)}")
        corpus = replace(corpus, sets={only: corpus.sets[only]})
    trainer = instantiate(
        {"_target_": "lightning.pytorch.Trainer", **content["trainer"]},
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        enable_checkpointing=False,
    )
    data = DataModule(corpus, common_options(content["data"]), module.config["seed"])
    rows = evaluate(trainer, module, data, content["eval"]["generate"])
    figures = generated_figures(module.generated, module, corpus, rows)
    return Measured(corpus, rows, figures, module.config["length_side"], trainer.is_global_zero)


def readable_corpus(trained: TrainedRun) -> Corpus:
    """The data to evaluate on, in the run's own vocabulary, without what the run was trained on.

    Raises:
        UserError: they are of another vocabulary, or longer than the encoding has positions.
    """
    module, options = trained.module, trained.content["data"]
    corpus = build_corpus(options, trained.coders)
    if stored_pair(corpus.source_vocabulary, corpus.target_vocabulary) != module.config["vocabulary"]:
        raise UserError("these data have another vocabulary than the run was trained on; leave the task's own options")
    if drawn := set(corpus.sets) - corpus.given - {"train"}:
        corpus = without_trained(corpus, build_corpus(module.config["data"], trained.coders, train=True), sorted(drawn))
    positions_needed(module.model, *corpus.longest(options["bos"], options["eos"]))
    return corpus


def free(path: Path) -> Path:
    """The path, or with a number behind it where that exists."""
    numbered = (path.with_name(f"{path.name}-{number}") for number in count(2))
    return next(p for p in chain([path], numbered) if not p.exists())


def without_trained(corpus: Corpus, trained: Corpus, drawn: Iterable[str]) -> Corpus:
    """The sets that were `drawn` (and not given as files) without what the run was trained on, which other data options
    may draw again; it says so."""
    sets = dict(corpus.sets)
    for name in drawn:
        examples = corpus.sets[name]
        fresh = np.flatnonzero(~np.isin(examples.hashes, trained.sets["train"].hashes))
        if len(fresh) == len(examples):
            continue
        print(f"{name}: {len(examples) - len(fresh)} of {len(examples)} examples were in training and are left out")
        if not len(fresh):
            raise UserError(f"{name} holds nothing but trained examples under these data options; leave the run's own")
        sets[name] = examples.select(fresh)
    return replace(corpus, sets=sets)
