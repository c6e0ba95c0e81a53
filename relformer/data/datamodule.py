"""The corpus as Lightning wants it: loaders for this rank, training from the step the trainer stands at."""

from __future__ import annotations

from typing import TypeVar

import lightning.pytorch as pl
from torch.utils.data import DataLoader

from relformer.data.batching import Batch, Batches, EvaluationPlans, Share, TrainingPlans
from relformer.data.corpus import Corpus, DataOptions

T = TypeVar("T")


class DataModule(pl.LightningDataModule):
    """Batches of a corpus. `seed` orders the training examples; `data.seed` made them."""

    def __init__(self, corpus: Corpus, options: DataOptions, seed: int) -> None:
        super().__init__()
        self.corpus, self.options, self.seed = corpus, options, seed

    @property
    def share(self) -> Share:
        assert self.trainer is not None
        return Share(self.trainer.global_rank, self.trainer.world_size, self.trainer.accumulate_grad_batches)

    def train_dataloader(self) -> DataLoader[Batch]:
        assert self.trainer is not None
        examples = self.corpus.sets["train"]
        start = self.trainer.global_step * self.share.accumulate
        return self.loader(
            Batches(examples), TrainingPlans(examples, self.options.batch_size, self.seed, self.share, start)
        )

    def val_dataloader(self) -> list[DataLoader[Batch]]:
        return self.evaluation("val")

    def test_dataloader(self) -> list[DataLoader[Batch]]:
        return self.evaluation("test")

    def evaluation(self, kind: str) -> list[DataLoader[Batch]]:
        sets = [self.corpus.sets[name] for name in self.corpus.evaluation_sets(kind)]
        size = self.options.eval_batch_size
        return [self.loader(Batches(each), EvaluationPlans(each, size, self.share)) for each in sets]

    def loader(self, batches: Batches, plans: TrainingPlans | EvaluationPlans) -> DataLoader[Batch]:
        return DataLoader(
            batches,
            batch_size=None,
            sampler=plans,
            collate_fn=same,
            num_workers=self.options.workers,
            persistent_workers=False,
        )


def same(batch: T) -> T:
    """Batches come whole from the dataset; there is nothing to collate."""
    return batch
