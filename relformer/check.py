"""Faults between the fields of a configuration, all of them at once, before any run directory exists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from omegaconf import DictConfig

from relformer.config import SLOTS, plain
from relformer.data.corpus import Corpus, DataOptions, build_corpus
from relformer.errors import OptionError, UserError
from relformer.model import ModelOptions, build_model, positions_needed
from relformer.registry import did_you_mean
from relformer.schema import AttentionOptions, EvalOptions, wrong_choice
from relformer.training.schedulers import SCHEDULERS

LOGGERS = ("wandb", "csv", "tensorboard", "none")


def check(config: DictConfig) -> None:
    """Build on the CPU what the configuration describes and collect what does not fit.

    Raises:
        UserError: every fault found, one a line.
    """
    faults: list[str] = []

    def attempt(part: Callable[[], Any]) -> Any:
        try:
            return part()
        except UserError as fault:
            if str(fault) not in faults:
                faults.append(str(fault))
            return None

    for part in (check_slots, check_numbers, check_trainer):
        attempt(lambda part=part: part(config))
    options = attempt(lambda: model_options(config))
    corpus = attempt(lambda: check_data(config))
    if options is not None and not faults:
        attempt(lambda: check_model(config, corpus))
    if faults:
        raise UserError("\nerror: ".join(faults))


def check_slots(config: DictConfig) -> None:
    for slot in SLOTS:
        node = config.get(slot)
        if node is not None and not isinstance(node, DictConfig):
            raise UserError(f"{slot}={node!r} is not an encoding's options; choose one by {slot}=NAME on the command line")


def check_numbers(config: DictConfig) -> None:
    if not isinstance(config.seed, int):
        raise UserError(f"seed: {config.seed!r} is not an integer")
    if config.resume is not None and not isinstance(config.resume, str):
        raise UserError(f"resume={config.resume!r} is not auto, null or the path of a checkpoint")
    if not 0 <= config.loss.label_smoothing < 1:
        raise OptionError("label_smoothing", config.loss.label_smoothing, "must lie in [0, 1)", "loss")
    if config.eval.every < 1:
        raise OptionError("every", config.eval.every, "must be at least 1: it counts optimizer steps", "eval")
    for path, cls in (("attention", AttentionOptions), ("eval", EvalOptions)):
        if wrong := wrong_choice(config[path], cls):
            raise OptionError(wrong[0], wrong[1], f"is not one of {wrong[2]}", path)
    if config.scheduler.name not in SCHEDULERS:
        near = did_you_mean(str(config.scheduler.name), SCHEDULERS)
        raise UserError(f"no scheduler {config.scheduler.name!r}{near}\n  schedulers: {', '.join(SCHEDULERS)}")
    if config.scheduler.warmup_steps < 0:
        raise OptionError("warmup_steps", config.scheduler.warmup_steps, "must not be negative", "scheduler")
    if config.logger.name not in LOGGERS:
        raise UserError(f"no logger {config.logger.name!r}; loggers: {', '.join(LOGGERS)}")


def check_trainer(config: DictConfig) -> None:
    trainer = config.trainer
    for name in ("max_steps", "accumulate_grad_batches"):
        if not isinstance(trainer[name], int) or trainer[name] < 1:
            raise OptionError(name, trainer[name], "must be an integer of at least 1", "trainer")
    devices = trainer.devices
    if isinstance(devices, int) and devices > 1 and devices * trainer.num_nodes > config.data.batch_size:
        raise OptionError(
            "batch_size",
            config.data.batch_size,
            f"is smaller than the {devices * trainer.num_nodes} devices that share it; it is the batch of all devices",
            "data",
        )


def model_options(config: DictConfig) -> ModelOptions:
    options = plain(config, "model")["model"]
    if wrong := wrong_choice(options, ModelOptions):
        raise OptionError(wrong[0], wrong[1], f"is not one of {wrong[2]}", "model")
    return ModelOptions(**options)


def check_data(config: DictConfig) -> Corpus:
    options = plain(config, "data")["data"]
    DataOptions(**{name: options[name] for name in DataOptions.__dataclass_fields__})
    corpus = build_corpus(options)
    monitored = config.callbacks.get("best_checkpoint")
    wanted = str(monitored.monitor).split("/")[1] if monitored else "iid"
    if f"val_{wanted}" not in corpus.sets:
        known = ", ".join(corpus.evaluation_sets("val"))
        raise UserError(f"callbacks.best_checkpoint.monitor={monitored.monitor} is not measured; this task has {known}")
    return corpus


def check_model(config: DictConfig, corpus: Corpus | None) -> None:
    sizes = (len(corpus.source_vocabulary), len(corpus.target_vocabulary)) if corpus else (3, 3)
    model = build_model(plain(config, "seed", "model", "attention", *SLOTS), *sizes)
    if corpus is not None:
        positions_needed(model, *corpus.longest())
    if config.attention.backend == "sdpa":
        for slot in model.slots.values():
            for encoding in slot.encodings:
                if encoding.overrides("score") or encoding.overrides("value"):
                    raise UserError(
                        f"attention.backend=sdpa can't serve {encoding.path}, which changes logits by content or values; "
                        "use attention.backend=auto or dense"
                    )
