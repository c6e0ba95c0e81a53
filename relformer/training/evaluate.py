"""Evaluating a finished run again: on other lengths, another checkpoint, another backend."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from relformer.config import SLOTS, instantiate, prepare, update
from relformer.data.corpus import build_corpus, common_options
from relformer.data.datamodule import DataModule
from relformer.data.encoded import Corpus
from relformer.data.vocabulary import stored_pair
from relformer.errors import OptionError, UserError
from relformer.evaluation.report import caution, print_table, write_report
from relformer.evaluation.summary import summarise
from relformer.model import positions_needed
from relformer.model.attention import Attention
from relformer.training.launch import quiet
from relformer.training.module import Seq2SeqModule
from relformer.training.resume import read_config, read_step
from relformer.training.run import evaluate

TRUST = "--trust-checkpoint"
CHANGEABLE = ("data", "eval", "attention", "trainer", *(f"{slot}.scaling" for slot in SLOTS))
"""RoPE's scaling has no weights, and is made to be changed on a trained model."""


def evaluate_run(run: str, overrides: list[str]) -> dict[str, Any]:
    """Evaluate a run's checkpoint under changed `data`, `eval`, `attention`, `trainer.accelerator`, or another
    `scaling` of RoPE.

    Prints the table by length and writes `metrics.json`, `examples.jsonl` and `length_curve.png` to a new folder under
    `<run>/evaluations`.

    Raises:
        UserError: no such run, a key that can't change after training, or lengths the encoding does not have.
    """
    prepare()
    quiet()
    trusted = TRUST in overrides
    overrides = [override for override in overrides if override != TRUST]
    wanted = [o.split("=", 1)[1].strip("\"'") for o in overrides if o.startswith("eval.checkpoint=")]
    path = checkpoint_of(Path(run), wanted[-1] if wanted else "last")
    directory = path.parent.parent if path.parent.name == "checkpoints" else path.parent
    config = stored_config(path, overrides)
    if not trusted:
        refuse_foreign_code(config)
    content: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    slots = {slot: content[slot] for slot in SLOTS if slot in content}
    module = Seq2SeqModule.load_from_checkpoint(
        path, map_location="cpu", weights_only=True, config=read_config(path) | slots
    )
    coders = module.source_vocabulary, module.target_vocabulary
    corpus = build_corpus(content["data"], coders)
    if stored_pair(corpus.source_vocabulary, corpus.target_vocabulary) != module.config["vocabulary"]:
        raise UserError("these data have another vocabulary than the run was trained on; leave the task's own options")
    if drawn := set(corpus.sets) - corpus.given - {"train"}:
        corpus = without_trained(corpus, build_corpus(module.config["data"], coders), sorted(drawn))
    positions_needed(module.model, *corpus.longest(content["data"]["bos"], content["data"]["eos"]))
    for part in module.model.modules():
        if isinstance(part, Attention):
            part.backend = content["attention"]["backend"]
    trainer = instantiate(
        {"_target_": "lightning.pytorch.Trainer", "accelerator": content["trainer"]["accelerator"]},
        devices=1,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )
    rows = evaluate(trainer, module, DataModule(corpus, common_options(content["data"]), module.config["seed"]))
    tests = {name: r for name, r in rows.items() if name.startswith("test_")}
    name = f"{directory.parent.name}/{directory.name}, {path.stem} checkpoint (step {read_step(path)})"
    side = module.config["length_side"]
    output = free(directory / "evaluations" / time.strftime("%Y%m%d-%H%M%S"))
    metrics = {"checkpoint": path.stem, "overrides": overrides, **{key: summarise(r, side) for key, r in rows.items()}}
    write_report(rows, metrics, name, module.config["trained_length"], output, side)
    print_table(tests, ": ".join(filter(None, (name, " ".join(overrides)))), side)
    if warning := caution(tests):
        print(warning)
    print(f"figures     {output / 'metrics.json'}\ncurve       {output / 'length_curve.png'}")
    return metrics


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


def refuse_foreign_code(config: DictConfig) -> None:
    """A checkpoint may name a module of code to import; only one that a plugin has imported is taken unasked."""
    for slot in SLOTS:
        target = (config.get(slot) or {}).get("_target_")
        if target and target.rpartition(".")[0] not in sys.modules:
            raise UserError(
                f"the checkpoint's {slot} is code of its own ({target}), which loading would run; if you trust it, add "
                f"{TRUST}, or make its package a plugin"
            )


def checkpoint_of(run: Path, which: str) -> Path:
    """The last checkpoint of a run, or the best on validation; a checkpoint's own path stands for itself."""
    if run.suffix == ".ckpt" and run.is_file():
        return run
    if which not in ("last", "best_val"):
        raise OptionError("checkpoint", which, "is not one of last, best_val", "eval")
    path = run / "checkpoints" / f"{which.removesuffix('_val')}.ckpt"
    if not path.exists():
        below = sorted(p.parent.parent for p in run.glob("**/checkpoints/last.ckpt"))
        hint = f"; runs in it: {', '.join(map(str, below[:5]))}" if below else ""
        raise UserError(f"{run.resolve()} is not a run: it has no checkpoints/{path.name}{hint}")
    return path


def stored_config(path: Path, overrides: list[str]) -> DictConfig:
    """The configuration a checkpoint carries, typed again, with the overrides on it."""
    content = {key: value for key, value in read_config(path).items() if key != "vocabulary"}
    config = OmegaConf.create(content | {"trainer": {"accelerator": "auto"}})
    schemas = {"data": "data", **dict.fromkeys(SLOTS, "encoding")}
    for part in (part for part in schemas if config.get(part) and "_target_" not in config[part]):
        schema = ConfigStore.instance().load(f"{schemas[part]}/schema/{config[part].name}.yaml").node
        config[part] = OmegaConf.merge(schema, config[part])
    OmegaConf.set_struct(config, True)
    for override in overrides:
        if not re.match(rf"\+*({'|'.join(CHANGEABLE)})[.=]", override):
            raise UserError(f"{override!r} can't change after training; evaluate takes {', '.join(CHANGEABLE)}.* keys")
    update(config, overrides)
    return config
