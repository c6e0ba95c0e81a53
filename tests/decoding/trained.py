"""A model of the letter task that is right about some strings and wrong about others."""

from functools import cache
from itertools import islice

import torch

from relformer.data.batching import Batches
from relformer.data.corpus import build_corpus
from relformer.data.encoded import Corpus
from relformer.data.planning import ByNumber, Share, TrainingPlans
from relformer.data.vocabulary import PAD
from relformer.model import Seq2Seq, build_model
from relformer.training.loss import summed_loss

STEPS = 250


@cache
def corpus() -> Corpus:
    options = {"seed": 0, "bos": True, "batch_size": 64, "eval_batch_size": 64, "max_steps": STEPS, "workers": 0}
    lengths = {"max_length": 3, "val": {"min_length": 4, "max_length": 4}, "test": {"min_length": 5, "max_length": 7}}
    return build_corpus({"name": "reverse", **options, **lengths, "letters": 10, "examples_per_length": 60})


@cache
def trained(encoding: str) -> Seq2Seq:
    """After so many steps of plain torch on lengths 1 to 3."""
    config = {"seed": 0, "model": {"width": 32, "heads": 2, "feedforward": 64}, "encoding": {"name": encoding}}
    examples = corpus().sets["train"]
    size = len(corpus().target_vocabulary)
    model = build_model(config, size, size, PAD)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    batches = Batches(examples)
    for plan in islice(TrainingPlans(ByNumber(examples, 64, 0), examples.target_lengths + 1, Share()), STEPS):
        batch = batches[plan]
        states = model.states(batch.source, batch.target)
        loss = summed_loss(states, *model.head, batch.labels, PAD) / batch.tokens
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()
