"""A trained run as a function from lines of text to lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from relformer.data.batching import Frame, padded
from relformer.data.vocabulary import BOS, EOS
from relformer.decoding import DecodingOptions, Hypothesis, decode
from relformer.errors import UserError
from relformer.training.trained import TrainedRun


@dataclass(frozen=True)
class Translation:
    """One hypothesis as text: on one line, since a line of input gives a line of output.

    `score` is the model's log-probability, `normalised` what hypotheses are ranked by.
    """

    text: str
    score: float
    normalised: float
    reached_limit: bool


class Translator:
    """Translates with a run's last, best or averaged weights.

    Args:
        max_tokens: source positions times beams (or samples) of a batch.
    """

    def __init__(self, trained: TrainedRun, device: torch.device, max_tokens: int = 4096) -> None:
        self.model = trained.module.model.to(device).eval()
        self.device, self.max_tokens = device, max_tokens
        self.source, self.target = trained.coders
        self.options = DecodingOptions(**trained.content["decoding"])
        self.frame = Frame(trained.content["data"]["bos"], trained.content["data"]["eos"])
        self.eos = EOS if self.frame.eos else -1

    def translate(self, lines: Sequence[str], first: int = 1) -> list[list[Translation]]:
        """The `decoding.n_best` translations of each line, best first, in the order of the lines; a blank line has
        none.

        Args:
            first: the number of the first line, for messages.

        Raises:
            UserError: a line that the run's vocabulary can't read, or that is longer than its encoding has positions.
        """
        sources = {n: self.encoded(line, first + n) for n, line in enumerate(lines) if line and not line.isspace()}
        found: list[list[Translation]] = [[] for _ in lines]
        with self.model.decoding():
            for batch in self.batches(sources):
                ids = padded([sources[number] for number in batch]).to(self.device)
                try:
                    hypotheses = decode(self.model, ids, self.options, BOS, self.eos, fitting=True)
                except UserError as error:
                    longest = max(batch, key=lambda number: len(sources[number]))
                    raise UserError(f"line {first + longest}: {error}") from None
                except (RuntimeError, MemoryError) as error:
                    if not short_of_memory(error):
                        raise
                    tokens = len(sources[batch[0]])
                    raise UserError(
                        f"line {first + batch[0]}: {len(batch):,} lines of up to {tokens:,} tokens need more memory "
                        f"than there is; lower max_tokens={self.max_tokens}, or split longer lines"
                    ) from None
                for number, best in zip(batch, hypotheses, strict=True):
                    found[number] = [self.said(hypothesis) for hypothesis in best]
        return found

    def encoded(self, line: str, number: int) -> list[int]:
        try:
            return self.frame.source(self.source.encode(line))
        except UserError as error:
            raise UserError(f"line {number}: {error}") from None

    def batches(self, sources: dict[int, list[int]]) -> Iterator[list[int]]:
        """Lines of like length together, as many as the token budget holds."""
        width = max(self.options.beams, self.options.n_best)
        batch: list[int] = []
        for number in sorted(sources, key=lambda number: -len(sources[number])):
            if batch and (len(batch) + 1) * len(sources[batch[0]]) * width > self.max_tokens:
                yield batch
                batch = []
            batch.append(number)
        if batch:
            yield batch

    def said(self, hypothesis: Hypothesis) -> Translation:
        text = " ".join(self.target.decode(hypothesis.tokens).splitlines())
        return Translation(text, hypothesis.score, hypothesis.normalised, hypothesis.reached_limit)


def short_of_memory(error: Exception) -> bool:
    """Whether an allocation failed; on a CPU torch says so only in words."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "allocate memory" in str(error)
