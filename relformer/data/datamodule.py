"""The corpus as Lightning wants it: loaders for this rank, training from the step the trainer stands at."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TypeVar

import lightning.pytorch as pl
from torch.utils.data import DataLoader

from relformer.data.batching import Batch, Batches
from relformer.data.corpus import DataOptions
from relformer.data.encoded import Corpus, EncodedSet
from relformer.data.planning import EvaluationPlans, Order, Share, TrainingPlans
from relformer.data.workers import follow

T = TypeVar("T")


class DataModule(pl.LightningDataModule):
    """Batches of a corpus. `seed` orders the training examples; `data.seed` made them. `timeout`: seconds that workers
    may take for a batch; 0 is for ever."""

    def __init__(self, corpus: Corpus, options: DataOptions, seed: int, timeout: float = 0) -> None:
        super().__init__()
        self.corpus, self.options, self.seed, self.timeout = corpus, options, seed, timeout

    @property
    def share(self) -> Share:
        assert self.trainer is not None
        return Share(self.trainer.global_rank, self.trainer.world_size, self.trainer.accumulate_grad_batches)

    def order(self, world: int) -> Order:
        return self.options.order(self.corpus.sets["train"], self.seed, world)

    def train_dataloader(self) -> DataLoader[Batch]:
        assert self.trainer is not None
        examples, share = self.corpus.sets["train"], self.share
        labels = self.options.frame.target_positions(examples.target_lengths)
        start = self.trainer.global_step * share.accumulate
        return self.loader(examples, TrainingPlans(self.order(share.world), labels, share, start))

    def val_dataloader(self) -> list[DataLoader[Batch]]:
        return self.evaluation("val")

    def test_dataloader(self) -> list[DataLoader[Batch]]:
        return self.evaluation("test")

    def evaluation(self, kind: str) -> list[DataLoader[Batch]]:
        sets = [self.corpus.sets[name] for name in self.corpus.evaluation_sets(kind)]
        size, budget, frame = self.options.eval_batch_size, self.options.max_tokens, self.options.frame
        return [self.loader(each, EvaluationPlans(each, size, self.share, budget, frame)) for each in sets]

    def loader(self, examples: EncodedSet, plans: TrainingPlans | EvaluationPlans) -> DataLoader[Batch]:
        return TimedLoader(
            Batches(examples, self.options.frame),
            batch_size=None,
            sampler=plans,
            collate_fn=same,
            num_workers=self.options.workers,
            persistent_workers=False,
            timeout=self.timeout if self.options.workers else 0,
            worker_init_fn=follow,
        )


class TimedLoader(DataLoader[Batch]):
    """`waited` are the seconds that the next batch took to come, all together."""

    waited = 0.0

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]
        batches = super().__iter__()
        while True:
            began = time.perf_counter()
            batch = next(batches, None)
            self.waited += time.perf_counter() - began
            if batch is None:
                return
            yield batch


def same(batch: T) -> T:
    """Batches come whole from the dataset; there is nothing to collate."""
    return batch
