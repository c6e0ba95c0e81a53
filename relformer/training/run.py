"""One training run: data, module, Trainer, training, and then its `results`."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from relformer.config import instantiate, plain
from relformer.data.corpus import build_corpus, common_options
from relformer.data.datamodule import DataModule
from relformer.data.encoded import Corpus
from relformer.data.planning import ByTokens
from relformer.data.survey import batch_lines, set_lines
from relformer.data.text.tokenizer import Tokenizer
from relformer.data.vocabulary import stored_pair
from relformer.files import write_text
from relformer.redaction import redact_argument
from relformer.registry import encodings
from relformer.training.callbacks.changed_optimizer import ChangedOptimizer
from relformer.training.callbacks.last_checkpoint import LastCheckpoint
from relformer.training.callbacks.stopping import OwnSignals, Stopping
from relformer.training.checkpoint import AtomicCheckpointIO
from relformer.training.differences import Changes, changes_of, history, said_of_start
from relformer.training.disk import room_warning
from relformer.training.guarded import guarded
from relformer.training.initialise import initialise
from relformer.training.loggers import Goal, build_loggers
from relformer.training.module import Seq2SeqModule
from relformer.training.origin import origin_record
from relformer.training.ranks import Watch
from relformer.training.results import report
from relformer.training.resume import Start, refuse_other_data, run_parts, step_limit, where_to_start
from relformer.training.sealing import LAST
from relformer.training.signals import signals
from relformer.training.threads import share_cores

logger = logging.getLogger("relformer")


def train(config: DictConfig) -> dict[str, Any]:
    """Train what the configuration describes and return what `metrics.json` holds. Runs on every rank."""
    with guarded(config) as watch:
        return _train(config, watch)


def _train(config: DictConfig, watch: Watch) -> dict[str, Any]:
    run_dir = Path(config.paths.run_dir)
    start, changes = where_to_start(config.resume, run_dir), {}
    options = plain(config, "data")["data"]
    corpus = build_corpus(options)
    if start.checkpoint is not None:
        changes = changes_of(start.checkpoint, config)
        refuse_other_data(start.checkpoint, corpus)
    data = DataModule(corpus, common_options(options), config.seed, config.reliability.timeout)
    trainer = build_trainer(config, run_dir, corpus.evaluation_sets("val"), watch)
    share_cores(trainer.num_devices, config.hardware.threads)
    if any(key.startswith(("optimizer.", "scheduler.")) for key in changes):
        trainer.callbacks.insert(0, ChangedOptimizer())  # type: ignore[attr-defined]
    limit_steps(trainer, config, data)
    parts = module_config(config, corpus, trainer.max_steps, trainer.world_size)
    parts |= history(start.checkpoint, changes, trainer.max_steps)
    module = Seq2SeqModule(parts | origin_record(config.init_from, start.checkpoint))
    if config.init_from is not None and start.checkpoint is None:
        initialise(module, config.init_from, config.init_strict, aloud=trainer.is_global_zero)
    if config.hardware.compile:
        module.model.compile_training()
    if config.hardware.activation_checkpointing:
        module.model.checkpoint_training()
    if trainer.is_global_zero:
        save_vocabularies(corpus, run_dir)
        logger.info("%s", describe(module, data, trainer, run_dir, start, changes))
    watch.start(trainer, config.data.workers)
    trainer.fit(module, datamodule=data, ckpt_path=start.checkpoint, weights_only=True)
    return report(trainer, module, data, config, run_dir)


def limit_steps(trainer: pl.Trainer, config: DictConfig, data: DataModule) -> None:
    """Count `trainer.max_epochs` in optimizer steps, which end training; `trainer.max_steps`, where it was set as well,
    may end it before."""
    if config.trainer.max_epochs is not None:
        batches = data.order(trainer.world_size).per_epoch() * config.trainer.max_epochs
        steps = max(1, round(batches / trainer.accumulate_grad_batches))
        if (limit := step_limit(config)) is not None:
            steps = min(steps, limit)
        trainer.fit_loop.epoch_loop.max_steps = steps
    trainer.val_check_interval = min(config.eval.every, trainer.max_steps) * trainer.accumulate_grad_batches


def save_vocabularies(corpus: Corpus, run_dir: Path) -> None:
    """The tokenizers of text beside the run; they travel in its checkpoints too."""
    sides = {"source_tokenizer": corpus.source_vocabulary, "target_tokenizer": corpus.target_vocabulary}
    if corpus.source_vocabulary is corpus.target_vocabulary:
        sides = {"tokenizer": corpus.source_vocabulary}
    for name, coder in sides.items():
        if isinstance(coder, Tokenizer):
            write_text(run_dir / f"{name}.json", coder.json)


def module_config(config: DictConfig, corpus: Corpus, max_steps: int, processes: int = 1) -> dict[str, Any]:
    """Everything a checkpoint needs to be a model again, and to be evaluated, in plain containers. The `processes` are
    a part of a run where each has a budget of tokens of its own, so that more of them make larger batches."""
    vocabulary = stored_pair(corpus.source_vocabulary, corpus.target_vocabulary)
    sizes = {"max_steps": max_steps, "trained_length": corpus.trained_length, "length_side": corpus.length_side}
    shared = {"processes": processes} if config.data.max_tokens and processes > 1 else {}
    return {**run_parts(config), **sizes, **shared, "vocabulary": vocabulary, "fingerprint": corpus.fingerprint}


def build_trainer(config: DictConfig, run_dir: Path, validated: list[str], watch: Watch) -> pl.Trainer:
    """The Trainer; `validated` names the sets of which W&B's summary keeps the best figures."""
    goals: dict[str, Goal] = {"loss": "min", "exact_match": "max"}
    loggers = build_loggers(
        plain(config, "logger")["logger"],
        run_dir,
        Path(config.paths.log_dir),
        name=config.name,
        group=config.logger.get("group"),
        config={**plain(config, *map(str, config.keys())), "bos": config.data.bos},
        tags=list(config.logger.get("tags", [])),
        notes=" ".join(map(redact_argument, HydraConfig.get().overrides.task)) if HydraConfig.initialized() else "",
        best={f"{name.replace('_', '/', 1)}/{figure}": goal for name in validated for figure, goal in goals.items()},
    )
    callbacks = [instantiate(node) for node in config.callbacks.values() if node is not None]
    callbacks.sort(key=lambda each: isinstance(each, LastCheckpoint))  # it holds what the others have just done
    last = next((each for each in callbacks if isinstance(each, LastCheckpoint)), None)
    last = last or LastCheckpoint(str(run_dir / "checkpoints" / LAST))  # for a signal alone
    trainer: pl.Trainer = instantiate(
        config.trainer,
        max_epochs=None,
        logger=loggers,
        callbacks=[*callbacks, Stopping(signals, watch, last.save)],
        plugins=[AtomicCheckpointIO(config.on_full)],
        default_root_dir=str(run_dir),
        check_val_every_n_epoch=None,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer._signal_connector = OwnSignals(trainer)
    return trainer


def describe(
    module: Seq2SeqModule,
    data: DataModule,
    trainer: pl.Trainer,
    run_dir: Path,
    start: Start,
    changes: Changes,
) -> str:
    """What runs: the data, the slots with their options, sizes, and where from and to."""
    order = data.order(trainer.world_size)
    lines = [
        *set_lines(data.corpus),
        *batch_lines(order, trainer.max_steps, trainer.accumulate_grad_batches),
    ]
    for role, slot in module.model.slots.items():
        node = module.config[slot.first.path]
        lines.append(f"{role:<9}{node['name']:<16}{' '.join(said(node))}".rstrip())
    if module.config["encoding"]["name"] == "none" and "encoder" in module.model.slots:
        lines.append("warning: an encoder without positions sees a bag of tokens; only the decoder knows their order")
    if module.config["eval"]["generate"] and not module.config["data"]["eos"]:
        lines.append("warning: without EOS (data.eos=false) nothing ends an output: none is decoded")
    total = sum(p.numel() for p in module.model.parameters())
    lines.append(f"parameters {total:,}, of which {module.model.position_parameters():,} in encodings")
    if trainer.num_devices > 1:
        lines.append(f"threads  {torch.get_num_threads()} in each of {trainer.num_devices} processes")
    lines += start.said
    if start.checkpoint is not None:
        lines += said_of_start(
            start.checkpoint, changes, trainer.max_steps, trainer.world_size, isinstance(order, ByTokens)
        )
    lines += room_warning(run_dir, total, trainer.callbacks)  # type: ignore[attr-defined]
    lines.append(f"run directory {run_dir}")
    return "\n".join(lines)


def said(slot: Mapping[str, Any]) -> Iterator[str]:
    """A slot's options as on the command line; of nested ones, such as RoPE's scaling, those that were changed."""
    known = encodings[slot["name"]].options() if slot["name"] in encodings else {}
    for key, value in slot.items():
        if isinstance(value, Mapping):
            default = vars(known[key].default) if key in known else {}
            yield from (f"{key}.{inner}={each}" for inner, each in value.items() if each != default.get(inner))
        elif value is not None and {"name": slot["name"], "layers": "all"}.get(key) != value:
            yield f"{key}={value}"
