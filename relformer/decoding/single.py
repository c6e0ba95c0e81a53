"""Greedy search and sampling: every row of the batch takes one token a step and never looks back."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from relformer.decoding.hypothesis import EMPTY, Draft, Hypothesis, ranked
from relformer.decoding.options import DecodingOptions
from relformer.decoding.problem import Problem
from relformer.decoding.sampling import drawn, uniforms
from relformer.encodings.precision import precise
from relformer.model import Seq2Seq


class Rows:
    """The rows of the batch: `copies` side by side for each sentence that has not left it."""

    def __init__(self, problem: Problem, copies: int) -> None:
        self.problem, self.copies = problem, copies
        self.sentences = list(range(len(problem.source)))
        self.drafts = [EMPTY] * (len(self.sentences) * copies)
        self.done = [False] * len(self.drafts)
        self.found: list[list[Hypothesis]] = [[] for _ in self.sentences]

    @property
    def of_row(self) -> list[int]:
        """The sentence of each row."""
        return [sentence for sentence in self.sentences for _ in range(self.copies)]

    def advance(self, tokens: Sequence[int], gains: Sequence[float]) -> list[int]:
        """Add a token to each row; the places of the sentences that have rows to go on with."""
        for row, (sentence, token, gain) in enumerate(zip(self.of_row, tokens, gains, strict=True)):
            if self.done[row]:
                continue
            before, ended = self.drafts[row], token == self.problem.eos
            draft = Draft(before.tokens if ended else [*before.tokens, token], before.score + gain)
            self.drafts[row] = draft
            if ended or len(draft.tokens) == self.problem.maximum[sentence]:
                self.done[row] = True
                self.found[sentence].append(draft.ended(self.problem.options, limited=not ended))
        return [place for place, sentence in enumerate(self.sentences) if len(self.found[sentence]) < self.copies]

    def keep(self, places: Sequence[int]) -> list[int]:
        """Leave the other sentences out; the rows that stay."""
        rows = [place * self.copies + copy for place in places for copy in range(self.copies)]
        self.sentences = [self.sentences[place] for place in places]
        self.drafts, self.done = [self.drafts[row] for row in rows], [self.done[row] for row in rows]
        return rows


def token_by_token(model: Seq2Seq, problem: Problem) -> list[list[Hypothesis]]:
    """The most probable tokens, or `n_best` samples of each sentence. Sentences that have ended leave the batch."""
    options, source = problem.options, problem.source
    rows = Rows(problem, options.n_best if options.sample else 1)
    cache = model.start(source, problem.planned, problem.positions)
    if rows.copies > 1:
        cache.select(torch.tensor(rows.of_row, device=source.device))
    chance = uniforms(source, model.pad, options.seed, problem.maximum, rows.copies) if options.sample else None
    tokens = source.new_full((len(rows.drafts), 1), problem.bos)
    for step in range(problem.planned):
        logits = precise(model.step(tokens, cache)[:, -1])  # (N, V)
        allowed = problem.constraints.applied(logits, rows.drafts, rows.of_row)
        if chance is None:
            values, chosen = allowed.max(-1)
        else:
            values, chosen = sampled(logits, allowed, chance[:, step].flatten(), options)
        places = rows.advance(chosen.tolist(), (values - logits.logsumexp(-1)).tolist())
        if not places:
            break
        if len(places) < len(rows.sentences):
            staying = torch.tensor(places, device=source.device)
            kept = torch.tensor(rows.keep(places), device=source.device)
            cache.select(kept, staying)
            chosen = chosen[kept]
            chance = None if chance is None else chance[staying]
        tokens = chosen[:, None]
    return [ranked(each, rows.copies) for each in rows.found]


def sampled(logits: Tensor, allowed: Tensor, uniform: Tensor, options: DecodingOptions) -> tuple[Tensor, Tensor]:
    """Logit and column of the token drawn in each row: (N, V) -> (N,) each."""
    chosen = drawn(allowed, uniform, options.temperature, options.top_k, options.top_p)
    return logits.gather(-1, chosen[:, None])[:, 0], chosen
