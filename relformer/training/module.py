"""The LightningModule: steps, optimizers, logging. Everything else lives where it can be tested without a Trainer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import lightning.pytorch as pl
import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from relformer.config import instantiate
from relformer.data.batching import Batch
from relformer.data.encoded import Corpus
from relformer.data.vocabulary import BOS, EOS, PAD, restored_pair
from relformer.decoding import DecodingOptions
from relformer.encodings.parameters import seed_of
from relformer.evaluation.gathered import Outcomes
from relformer.evaluation.generation import Generator, Output, gathered, texts_of
from relformer.evaluation.outcomes import judge
from relformer.evaluation.scores import text_scores
from relformer.evaluation.summary import bucketed, figures, length_label
from relformer.faults import reached
from relformer.model import build_model
from relformer.seeding import seed_generators
from relformer.training.loss import LossOptions, summed_loss
from relformer.training.schedulers import schedule
from relformer.training.sharding import FullySharded, whole_model


class Seq2SeqModule(pl.LightningModule):
    """Trains and evaluates one model. `config` is plain containers and rebuilds everything, so that a checkpoint loads
    with `weights_only=True` and without arguments.

    Args:
        config: `seed`, `model`, the encoding slots, `attention`, `loss`, `optimizer`, `scheduler`, `data`,
            `eval`, `decoding`, and `vocabulary`, of which `restored_pair` makes the two sides'.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.save_hyperparameters({"config": config}, logger=False)
        self.config = config
        self.source_vocabulary, self.target_vocabulary = restored_pair(config["vocabulary"])
        self.model = build_model(config, len(self.source_vocabulary), len(self.target_vocabulary), PAD)
        self.outcomes: list[Outcomes] = []
        self.rows: dict[str, Tensor] = {}
        self.outputs: list[list[Output]] = []
        self.generated: dict[str, list[Output]] = {}
        self.generate_all = False
        """Whether to decode the test sets, as at the end of a run. Of validation sets of text, batches are decoded."""
        self.loss_of_step: Tensor | float = 0.0
        """Summed over the batches of an optimizer step so far."""
        self.log_prefix = ""
        """Before the names of evaluation metrics: `best_val/` while that checkpoint is evaluated."""

    def configure_model(self) -> None:
        """Shares the weights out where the strategy does; before that they are whole, on the CPU of each rank, and a
        checkpoint that is opened has no Trainer at all."""
        if self._trainer is not None and isinstance(strategy := self._trainer.strategy, FullySharded):
            strategy.shard(self)

    def on_train_batch_start(self, batch: Batch, batch_index: int) -> None:
        """Figures are logged at the steps behind them; Lightning counts one too many where a finished run is made
        longer."""
        self.trainer.fit_loop.epoch_loop._batches_that_stepped = self.global_step

    def training_step(self, batch: Batch, batch_index: int) -> Tensor:
        # Dropout is a pure function of (seed, step, rank): equal for every encoding, and unchanged by a resume. The
        # trainer's own count of batches begins anew where a finished run is made longer.
        accumulate = self.trainer.accumulate_grad_batches if self._trainer else 1  # match=time has no Trainer
        number = self.global_step * accumulate + batch_index % accumulate
        seed = seed_of(self.config["seed"], "dropout", self.global_step, number, self.global_rank)
        seed_generators(seed, self.device)
        spoiled = reached("step", self.global_step + 1)
        states = self.model.states(batch.source, batch.target, batch.positions)
        options = LossOptions(**self.config["loss"])
        loss = summed_loss(states, *self.model.head, batch.labels, PAD, options) / batch.tokens
        if spoiled is not None:
            loss = loss * float(spoiled)
        part = batch_index % accumulate
        self.loss_of_step = loss.detach() + (self.loss_of_step if part else 0.0)
        shown = self.loss_of_step / (part + 1)  # of all the batches that make the step
        self.log("train/loss", shown, sync_dist=self.trainer.world_size > 1, batch_size=len(batch.source))
        return loss

    def on_validation_epoch_start(self) -> None:
        self.start_evaluation("val")

    def on_test_epoch_start(self) -> None:
        self.start_evaluation("test")

    def start_evaluation(self, kind: str) -> None:
        self.corpus: Corpus = self.trainer.datamodule.corpus  # type: ignore[attr-defined]
        self.evaluated = self.corpus.evaluation_sets(kind)
        self.outcomes = [Outcomes().to(self.device) for _ in self.evaluated]
        self.outputs = [[] for _ in self.evaluated]
        self.judged = [whole_model(self)]  # in a list, since a module's attribute would be a part of it
        sentences = self.target_vocabulary.sentences
        longest = [int(each.target_lengths.max()) for each in self.corpus.sets.values()]
        self.generator = Generator(DecodingOptions(**self.config["decoding"]), None if sentences else max(longest))
        counts = map(int, self.trainer.num_val_batches if kind == "val" else self.trainer.num_test_batches)
        self.decoded = [self.to_decode(kind, sentences, n) for n in counts]
        """Of each set, the batches that are decoded."""

    def to_decode(self, kind: str, sentences: bool, batches: int) -> Sequence[int]:
        """None where the data have no EOS, since nothing ends an output."""
        if not self.trainer.datamodule.options.eos:  # type: ignore[attr-defined]
            return []
        if kind == "test":
            return range(batches if self.generate_all else 0)
        return spread(batches, self.config["eval"]["generate_batches"] if sentences else 0)

    def validation_step(self, batch: Batch, batch_index: int, dataloader_idx: int = 0) -> None:
        reached("validation", self.global_step)
        # For encodings that draw positions in evaluation too: one set's figures are the same each time.
        place = self.evaluated[dataloader_idx], int(batch.index[0])
        seed_generators(seed_of(self.config["seed"], "evaluation", *place), self.device)
        (model,) = self.judged
        with torch.autocast(self.device.type, enabled=False):  # evaluation runs in float32
            logits = model(batch.source, batch.target, batch.positions)
        length = ((batch.source != PAD) & (batch.source != BOS) & (batch.source != EOS)).sum(-1)
        self.outcomes[dataloader_idx].update(judge(logits, batch.labels, batch.index, length, PAD, EOS))
        if batch_index in self.decoded[dataloader_idx]:
            with torch.autocast(self.device.type, enabled=False):
                found = self.generator.outputs(model, batch.source, batch.index.tolist(), batch.positions)
            self.outputs[dataloader_idx] += found

    test_step = validation_step

    def on_validation_epoch_end(self) -> None:
        self.finish_evaluation()

    def on_test_epoch_end(self) -> None:
        self.finish_evaluation()

    def finish_evaluation(self) -> None:
        """Gather the outcomes of all ranks and log `val/longer/exact_match` and the like, and exact match by length; of
        decoded text BLEU, chrF and TER."""
        for name, outcomes, outputs in zip(self.evaluated, self.outcomes, self.outputs, strict=True):
            rows = self.rows[name] = outcomes.compute()
            prefix = self.log_prefix + name.replace("_", "/", 1)
            found = {f"{prefix}/{key}": value for key, value in figures(rows).items() if key != "n"}
            by_length = {
                f"{prefix}/by_length/{length_label(b)}": b["exact_match"]
                for b in bucketed(rows, self.config["length_side"])
            }
            written = self.generated[name] = gathered(outputs)
            if written and self.target_vocabulary.sentences:
                texts = texts_of(written, self.corpus.sets[name], self.target_vocabulary)
                scores = text_scores(*texts, tokenize=self.config["eval"]["bleu_tokenize"])
                found |= {f"{prefix}/{metric}": scores[metric]["score"] for metric in scores}
            self.log_dict(found, sync_dist=self.trainer.world_size > 1, logger=False)  # for callbacks that monitor
            for logger in self.loggers:
                logger.log_metrics({**found, **by_length}, step=self.global_step)
        self.outcomes, self.outputs = [], []

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["world_size"] = self.trainer.world_size

    def configure_optimizers(self) -> Any:
        optimizer = self.build_optimizer()
        options = self.config["scheduler"]
        factor = schedule(options["name"], options["warmup_steps"], self.trainer.max_steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": LambdaLR(optimizer, factor), "interval": "step"}}

    def build_optimizer(self) -> Optimizer:
        """Matrices decay (where the optimizer decays at all), vectors do not."""
        parameters = list(self.model.parameters())
        groups: list[dict[str, Any]] = [
            {"params": [p for p in parameters if p.dim() > 1]},
            {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
        ]
        optimizer: Optimizer = instantiate(
            self.config["optimizer"], params=[group for group in groups if group["params"]]
        )
        return optimizer


def spread(n: int, few: int) -> list[int]:
    """`few` numbers of batches out of n, or all: evenly, since the batches follow the lengths of their sentences."""
    few = min(few, n)
    return [(2 * place + 1) * n // (2 * few) for place in range(few)]
