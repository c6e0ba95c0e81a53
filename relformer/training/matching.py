"""`match=parameters|flops|time`: a run is made as costly as its own model would be without positions.

    parameters   a narrower feed-forward pays for the encodings' parameters
    flops        fewer steps pay for what the encodings multiply in each
    time         fewer steps pay for the seconds that the encodings add to each, as measured on this machine

What is adjusted becomes an override of the run, so that its stored configuration repeats it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import torch
from omegaconf import DictConfig
from torch.utils.flop_counter import FlopCounterMode

from relformer.config import SLOTS, plain
from relformer.data.batching import Batch, Batches
from relformer.data.corpus import check_corpus, common_options
from relformer.data.encoded import Corpus
from relformer.data.planning import Share, TrainingPlans
from relformer.data.vocabulary import PAD
from relformer.errors import OptionError, UserError
from relformer.model import ModelOptions, Seq2Seq, build_model
from relformer.training.loss import summed_loss

BATCHES = 4
"""Batches of training whose operations are counted."""


def matching_overrides(config: DictConfig) -> tuple[list[str], str]:
    """The overrides that make a run's cost that of its model without positions, and a sentence that says so.

    Raises:
        UserError: an unknown cost, or one that can't be reached.
    """
    if config.match not in MATCHES:
        raise UserError(f"match={config.match} is not a cost to match; choose one of {', '.join(MATCHES)}")
    corpus = check_corpus(plain(config, "data")["data"])
    override, sentence = MATCHES[config.match](config, corpus)
    return [override, "match=null", f"matched={config.match}"], f"match={config.match}: {sentence}"


def keep_match(config: DictConfig) -> None:
    """Leave in the run's directory what can't be worked out again: times are measured once."""
    if config.match == "time":
        from relformer.training.step_time import keep_with_run

        keep_with_run(config)


def by_parameters(config: DictConfig, corpus: Corpus) -> tuple[str, str]:
    options = ModelOptions(**plain(config, "model")["model"])
    model = built(plain(config, "seed", "model", "attention", *SLOTS), corpus)
    biases = (1 + options.gated) * options.feedforward_bias
    each = sum(options.own_layers) * ((2 + options.gated) * options.width + biases)
    extra, total = model.position_parameters(), sum(p.numel() for p in model.parameters())
    narrower = options.feedforward - round(extra / each)
    if narrower < 1:
        rule = f"can't pay for the {extra:,} parameters of the encodings; raise it, or take match=flops"
        raise OptionError("feedforward", options.feedforward, rule, "model")
    after = total - (options.feedforward - narrower) * each
    sentence = (
        f"model.feedforward {options.feedforward} -> {narrower}; {after:,} parameters, of which {extra:,} in encodings "
        f"(before {total:,}; without positions {total - extra:,})"
    )
    return f"model.feedforward={narrower}", sentence


def by_flops(config: DictConfig, corpus: Corpus) -> tuple[str, str]:
    refuse_epochs(config)
    parts = plain(config, "seed", "model", *SLOTS) | {"attention": {"backend": "dense"}}  # torch counts no fused one
    bare = {key: value for key, value in parts.items() if key not in SLOTS} | {"encoding": {"name": "none"}}
    batches = training_batches(config, corpus)
    ours, theirs = (flops(built(each, corpus), batches) for each in (parts, bare))
    steps = max(1, round(config.trainer.max_steps * theirs / ours))
    sentence = (
        f"trainer.max_steps {config.trainer.max_steps} -> {steps}; {ours / BATCHES:.4g} FLOPs a step in matrix "
        f"products (without positions {theirs / BATCHES:.4g})"
    )
    return f"trainer.max_steps={steps}", sentence


def by_time(config: DictConfig, corpus: Corpus) -> tuple[str, str]:
    from relformer.training.step_time import step_time

    refuse_epochs(config)
    steps = config.trainer.max_steps
    if all(config[slot].name == "none" for slot in SLOTS if config.get(slot) is not None):
        return f"trainer.max_steps={steps}", f"trainer.max_steps stays {steps}; the model has no positions"
    found, where = step_time(config, corpus)
    fewer = max(1, round(steps / found.ratio))
    return f"trainer.max_steps={fewer}", f"trainer.max_steps {steps} -> {fewer}; {found}; {where}"


def refuse_epochs(config: DictConfig) -> None:
    """Raises OptionError where training is not counted in steps, of which there can be fewer."""
    if (epochs := config.trainer.max_epochs) is not None:
        raise OptionError("max_epochs", epochs, f"can't be matched by {config.match}; give max_steps", "trainer")


MATCHES: Mapping[str, Callable[[DictConfig, Corpus], tuple[str, str]]] = {
    "parameters": by_parameters,
    "flops": by_flops,
    "time": by_time,
}


def built(parts: Mapping[str, Any], corpus: Corpus) -> Seq2Seq:
    return build_model(parts, len(corpus.source_vocabulary), len(corpus.target_vocabulary), PAD)


def training_batches(
    config: DictConfig,
    corpus: Corpus,
    share: Share = Share(),  # noqa: B008  frozen
    number: int = BATCHES,
) -> list[Batch]:
    """A run's first batches on one device, of seed 0 whatever the run's: all seeds must be matched alike."""
    options, examples = common_options(plain(config, "data")["data"]), corpus.sets["train"]
    labels = options.frame.target_positions(examples.target_lengths)
    plans = TrainingPlans(options.order(examples, 0, share.world), labels, share)
    batches = Batches(examples, options.frame)
    return [batches[plan] for plan in islice(plans, number)]


def flops(model: Seq2Seq, batches: list[Batch]) -> int:
    """Floating-point operations of forward and backward passes, as torch counts them: matrix products alone."""
    model.train()
    in_place = {torch.ops.aten.addmm_: product_flops}  # the loss's, which torch would leave out
    with FlopCounterMode(display=False, custom_mapping=in_place) as counter, torch.random.fork_rng([]):
        for batch in batches:
            states = model.states(batch.source, batch.target, batch.positions)
            summed_loss(states, *model.head, batch.labels, PAD).backward()
    return counter.get_total_flops()


def product_flops(total: Any, a: Any, b: Any, *_: Any, **__: Any) -> int:
    """Of total += a @ b, by the shapes."""
    return int(2 * a[0] * a[1] * b[1])
