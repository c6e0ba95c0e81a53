"""Faults between the fields of a configuration, all of them at once, before any run directory exists."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from relformer.attention import refuse
from relformer.config import SLOTS, conf_dir, explain, instantiate, plain
from relformer.data.corpus import check_corpus, common_options
from relformer.data.encoded import Corpus
from relformer.decoding import DecodingOptions
from relformer.devices import device_faults
from relformer.encodings import Role
from relformer.errors import OptionError, UserError
from relformer.evaluation.summary import FIGURES
from relformer.files import sized
from relformer.model import DecoderOnly, ModelOptions, Seq2Seq, build_model, positions_needed
from relformer.model.building import refuse_moved_first
from relformer.model.slot import build_slot
from relformer.names import fault_of, unprintable
from relformer.registry import did_you_mean
from relformer.schema import LOGGER_MODES, LOGGERS, AttentionOptions, EvalOptions, wrong_choice
from relformer.shipped import leaves
from relformer.training.loss import LossOptions
from relformer.training.schedulers import SCHEDULERS

LISTED = OmegaConf.load(conf_dir() / "trainer" / "default.yaml")
"""The Trainer's arguments that need no look at its signature, which takes seconds to import."""
SET_BY_RUN = {
    "logger": ", from logger=wandb, csv, tensorboard or none",
    "callbacks": ", from the callbacks group: +callbacks.mine._target_=...",
    "val_check_interval": ", from eval.every",
    "check_val_every_n_epoch": ", from eval.every",
    "plugins": "",
    "default_root_dir": ", from hydra.run.dir",
    "limit_train_batches": ": training is counted in steps, trainer.max_steps",
    "overfit_batches": "; a small data.examples serves",
    "limit_val_batches": ": figures are of whole sets",
    "limit_test_batches": ": figures are of whole sets",
    "fast_dev_run": "; trainer.max_steps=2 serves",
    "num_sanity_val_steps": "",
    "enable_progress_bar": ", see callbacks.progress",
    "enable_model_summary": "",
    "use_distributed_sampler": ", since the batches are planned for each rank",
}


def check(config: DictConfig) -> None:
    """Build on the CPU what the configuration describes and collect what does not fit.

    Raises:
        UserError: every fault found, one a line.
    """
    try:
        refuse_missing(config)
        _check(config)
    except OmegaConfBaseException as error:  # a key that was taken out, or refers to none
        raise UserError(explain(error)) from None


def refuse_missing(config: DictConfig) -> None:
    """Raises UserError where values are left open (???)."""
    given = {key: config._get_node(key) for key in config if key != "hydra"}
    content = {key: OmegaConf.to_container(node) if OmegaConf.is_config(node) else node for key, node in given.items()}
    if missing := sorted(path for path, value in leaves(content) if str(value) == "???"):
        raise UserError("\nerror: ".join(f"{path} is not set (???); give it a value" for path in missing))


def _check(config: DictConfig) -> None:
    faults: list[str] = []

    def attempt(part: Callable[[], Any]) -> Any:
        try:
            return part()
        except UserError as fault:
            said = str(fault)
        except (MemoryError, RuntimeError) as error:
            from relformer.training.callbacks.out_of_memory import is_out_of_memory

            if not is_out_of_memory(error):
                raise
            said = f"these options need more memory than there is: {str(error).splitlines()[0]}"
        if said not in faults:
            faults.append(said)
        return None

    faults += map(str, (*root_faults(config), *trainer_faults(config), *device_faults(config)))
    attempt(partial(check_optimizer, config))
    attempt(lambda: DecodingOptions(**plain(config, "decoding")["decoding"]))
    attempt(lambda: LossOptions(**plain(config, "loss")["loss"]))
    options = attempt(partial(model_options, config)) or ModelOptions()
    roles: tuple[Role, ...] = ("decoder",) if options.decoder_only else get_args(Role)
    for role, slot in zip(roles, SLOTS, strict=False):
        attempt(partial(check_slot, config, role, slot, options))
    corpus = attempt(partial(check_data, config))
    if not faults:
        attempt(partial(check_model, config, corpus))
    if not faults:
        attempt(partial(check_trainer, config))
    if faults:
        raise UserError("\nerror: ".join(faults))


def check_slot(config: DictConfig, role: Role, path: str, model: ModelOptions) -> None:
    node = config.get(path)
    if node is not None and not isinstance(node, DictConfig):
        raise UserError(f"{path}={node!r} is not an encoding's options; choose one by {path}=NAME on the command line")
    if node is not None:
        build_slot(plain(config, path)[path], role, path, model)


def root_faults(config: DictConfig) -> Iterator[UserError]:
    if type(config.seed) is not int:
        yield UserError(f"seed: {config.seed!r} is not an integer")
    for path in ("name", "paths.log_dir"):
        if not isinstance(OmegaConf.select(config, path), str):
            yield UserError(f"{path}={OmegaConf.select(config, path)!r} is not a name")
        elif fault := (fault_of if path == "name" else unprintable)(OmegaConf.select(config, path)):
            yield UserError(f"{path}={OmegaConf.select(config, path)!r} {fault}")
    if not isinstance(config.logger.get("tags", ListConfig([])), ListConfig):
        yield OptionError("tags", config.logger.tags, "is not a list; write logger.tags=[one,two]", "logger")
    if config.eval.checkpoint == "best_val" and config.callbacks.get("best_checkpoint") is None:
        yield OptionError("checkpoint", "best_val", "needs callbacks.best_checkpoint, which is switched off", "eval")
    if config.on_full not in ("stop", "go_on"):
        yield UserError(f"on_full={config.on_full} is not one of stop, go_on")
    if type(config.resume_changed) is not bool:
        yield UserError(f"resume_changed={config.resume_changed} is not true or false")
    if type(config.init_strict) is not bool:
        yield UserError(f"init_strict={config.init_strict} is not true or false")
    if config.init_from is not None and not isinstance(config.init_from, str):
        yield UserError(f"init_from={config.init_from} is not a path; give a run, a checkpoint, a folder, or hf:NAME")
    if config.resume not in (None, "auto") and not (isinstance(config.resume, str) and Path(config.resume).is_file()):
        yield UserError(f"resume={config.resume} is not a file; give the path of a checkpoint, auto, or null")
    yield from sweep_faults(config)
    yield from reliability_faults(config)
    if config.eval.generate_batches < 0:
        yield OptionError("generate_batches", config.eval.generate_batches, "must be 0 or more", "eval")
    if config.eval.every < 1:
        yield OptionError("every", config.eval.every, "must be at least 1: it counts optimizer steps", "eval")
    for path, cls in (("attention", AttentionOptions), ("eval", EvalOptions)):
        if wrong := wrong_choice(config[path], cls):
            yield OptionError(wrong[0], wrong[1], f"is not one of {wrong[2]}", path)
    if config.scheduler.name not in SCHEDULERS:
        near = did_you_mean(str(config.scheduler.name), SCHEDULERS)
        yield UserError(f"no scheduler {config.scheduler.name!r}{near}\n  schedulers: {', '.join(SCHEDULERS)}")
    warmup = config.scheduler.warmup_steps
    if not isinstance(warmup, int) or warmup < 0:
        yield OptionError("warmup_steps", warmup, "is not a number of steps from 0 on", "scheduler")
    if "name" not in config.logger:
        yield UserError(f"logger.name is missing; it is one of {', '.join(LOGGERS)}")
    for option, choices in (("name", LOGGERS), ("mode", LOGGER_MODES)):
        if config.logger.get(option, choices[0]) not in choices:
            yield OptionError(option, config.logger[option], f"is not one of {', '.join(choices)}", "logger")


def reliability_faults(config: DictConfig) -> Iterator[UserError]:
    timeout, requeue = config.reliability.timeout, config.reliability.requeue
    if timeout <= 0:
        yield OptionError("timeout", timeout, "must be a positive number of seconds", "reliability")
    if requeue and config.resume != "auto":
        yield OptionError("requeue", requeue, "needs resume=auto, or the job would begin afresh", "reliability")


def sweep_faults(config: DictConfig) -> Iterator[UserError]:
    """Whatever is chosen on a test set can't be tested on it any more."""
    objective = config.sweep.objective
    if objective.startswith("test") and not config.sweep.tune_on_test:
        rule = "is of a test set: what is chosen on it can't be tested on it; choose one of val/..., or say "
        yield OptionError(
            "objective", objective, f"{rule}sweep.tune_on_test=true, which the report then shows", "sweep"
        )


def trainer_faults(config: DictConfig) -> Iterator[UserError]:
    trainer = config.trainer
    if unlisted := set(map(str, trainer)) - set(map(str, LISTED)):
        from lightning.pytorch import Trainer

        known = inspect.signature(Trainer.__init__).parameters
        for name in sorted(unlisted):
            if name not in known:
                yield UserError(f"Lightning's Trainer has no argument {name!r}{did_you_mean(name, known)}")
            if name in SET_BY_RUN:
                yield UserError(f"trainer.{name} is set by the run itself{SET_BY_RUN[name]}")
    for name in ("max_steps", "accumulate_grad_batches", "num_nodes"):
        if not isinstance(trainer[name], int) or trainer[name] < 1:
            yield OptionError(name, trainer[name], "must be an integer of at least 1", "trainer")
    if trainer.gradient_clip_val and "mixed" in str(trainer.precision) and config.optimizer.get("fused"):
        yield UserError(
            f"trainer.gradient_clip_val={trainer.gradient_clip_val} with trainer.precision={trainer.precision} needs "
            "optimizer.fused=false: Lightning does not clip before a fused step in mixed precision"
        )
    epochs = trainer.max_epochs
    if epochs is not None and not (type(epochs) in (int, float) and epochs > 0):
        yield OptionError("max_epochs", epochs, "must be a positive number, or null to count max_steps", "trainer")


def check_optimizer(config: DictConfig) -> None:
    """The optimizer takes its options: it is built on a parameter of its own."""
    try:
        instantiate(config.optimizer, params=[torch.zeros(1)])
    except UserError as error:
        raise UserError(f"optimizer: {error}") from None


def check_trainer(config: DictConfig) -> None:
    """The Trainer and its callbacks are what they are told to be: they are built, and forgotten."""
    if config.trainer.accelerator in ("gpu", "cuda") and not torch.accelerator.is_available():
        rule = "needs a GPU, and PyTorch sees none; hardware=auto takes what there is, hardware=cpu a processor"
        raise OptionError("accelerator", config.trainer.accelerator, rule, "trainer")
    run = config.copy()
    OmegaConf.set_readonly(run, False)
    run.paths.run_dir = str(run.hydra.run.dir)
    callbacks = [instantiate(node) for node in run.callbacks.values() if node is not None]
    instantiate(run.trainer, max_epochs=None, callbacks=callbacks, logger=False, enable_progress_bar=False)


def model_options(config: DictConfig) -> ModelOptions:
    options = plain(config, "model")["model"]
    if wrong := wrong_choice(options, ModelOptions):
        raise OptionError(wrong[0], wrong[1], f"is not one of {wrong[2]}", "model")
    made = ModelOptions(**options)
    refuse_too_large(made)
    return made


def refuse_too_large(options: ModelOptions) -> None:
    """Raises UserError where the weights of the layers alone would fill this machine's memory."""
    width, feedforward = options.width, 2 * options.width * options.feedforward
    encoder, decoder = options.own_layers
    weights = encoder * (4 * width**2 + feedforward) + decoder * ((8 if encoder else 4) * width**2 + feedforward)
    room = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if 4 * weights > room:
        raise UserError(
            f"a model of {weights:.3g} weights takes {sized(4 * weights)}, and this machine has {sized(room)}; make "
            "model.width, model.feedforward or the number of layers smaller"
        )


def check_data(config: DictConfig) -> Corpus:
    options = plain(config, "data")["data"]
    common_options(options)
    corpus = check_corpus(options)
    figures = {
        kind: [f"{name.replace('_', '/', 1)}/{figure}" for name in corpus.evaluation_sets(kind) for figure in FIGURES]
        for kind in ("val", "test")
    }
    measured, objective = figures["val"], config.sweep.objective
    if objective not in measured + figures["test"]:
        near = did_you_mean(objective, measured)
        raise UserError(f"sweep.objective={objective} is not measured{near}\n  {', '.join(measured)}")
    for name in ("best_checkpoint", "early_stopping"):
        callback = config.callbacks.get(name)
        if callback is not None and callback.monitor not in measured:
            near = did_you_mean(str(callback.monitor), measured)
            raise UserError(
                f"callbacks.{name}.monitor={callback.monitor} is not measured{near}\n  {', '.join(measured)}"
            )
    refuse_sentences(config, corpus)
    refuse_limits(config, corpus)
    return corpus


def refuse_sentences(config: DictConfig, corpus: Corpus) -> None:
    """Raises OptionError where attention is to be drawn of sentences that the first validation set does not have."""
    callback, names = config.callbacks.get("attention_maps"), corpus.evaluation_sets("val")
    if not isinstance(callback, DictConfig) or callback.get("sentences") is None or not names:
        return
    n, asked = len(corpus.sets[names[0]]), plain(callback, "sentences")["sentences"]
    if not isinstance(asked, list) or not all(type(each) is int and 0 <= each < n for each in asked):
        rule = f"is not a list of numbers of sentences from 0 to {n - 1}: {names[0]} has {n}"
        raise OptionError("sentences", asked, rule, "callbacks.attention_maps")


def refuse_limits(config: DictConfig, corpus: Corpus) -> None:
    """Raises UserError where text is decoded, and a source is too short or too long for the limits of outputs."""
    if not (config.data.eos and corpus.target_vocabulary.sentences):
        return
    options = DecodingOptions(**plain(config, "decoding")["decoding"])
    ends = config.data.bos + 1
    kinds = [kind for kind, some in (("val", config.eval.generate_batches), ("test", config.eval.generate)) if some]
    for name in (name for kind in kinds for name in corpus.evaluation_sets(kind)):
        for length in np.unique(corpus.sets[name].source_lengths).tolist():
            options.limits(length + ends)


def refuse_given(model: Seq2Seq) -> None:
    """Raises UserError where the data give the sources' positions, and the encoding draws them or the targets follow
    their sources."""
    if isinstance(model, DecoderOnly):
        raise UserError(
            "the data give the sources' positions, which do not say where a target begins in a decoder-only model; "
            "choose a model with an encoder, or leave the positions out"
        )
    first = model.slots["encoder"].first
    if first.acts("positions"):
        raise UserError(f"{first.path} draws positions, but the data give them; leave out one or the other")


def check_model(config: DictConfig, corpus: Corpus | None) -> None:
    sizes = (len(corpus.source_vocabulary), len(corpus.target_vocabulary)) if corpus else (3, 3)
    one = config.model.tie in ("inputs", "all")
    if corpus and one and corpus.source_vocabulary.tokens != corpus.target_vocabulary.tokens:
        rule = "needs one vocabulary for both sides (of text: data.tokenizer.joint=true); choose decoder"
        raise OptionError("tie", config.model.tie, rule, "model")
    model = build_model(plain(config, "seed", "model", "attention", *SLOTS), *sizes)
    refuse_moved_first(model)
    if corpus is not None:
        positions_needed(model, *corpus.longest(config.data.bos, config.data.eos))
        if any(each.positions is not None for each in corpus.sets.values()):
            refuse_given(model)
    for slot in model.slots.values():
        for encoding in slot:
            refuse(config.attention.backend, encoding)
