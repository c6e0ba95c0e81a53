"""Beam search: the best partial targets of a sentence go on side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from relformer.decoding.hypothesis import EMPTY, Draft, Hypothesis, ranked
from relformer.decoding.options import DecodingOptions
from relformer.decoding.problem import Problem
from relformer.decoding.top import top
from relformer.encodings.precision import precise
from relformer.model import Seq2Seq

Candidate = tuple[float, int, int]
"""Log-probability of the whole, the beam it continues, and the token."""


class Beam:
    """One sentence's search: `live` drafts, best first, each from the row `came_from`, and what has ended."""

    def __init__(self, options: DecodingOptions, maximum: int, eos: int) -> None:
        self.options, self.maximum, self.eos = options, maximum, eos
        self.live = [EMPTY]
        self.came_from = [0]
        self.ended: list[Hypothesis] = []
        self.cut: list[Hypothesis] = []

    def rows(self, width: int) -> list[Draft]:
        """One draft a row: where fewer are live, rows that can win no more fill up."""
        return self.live + [Draft(self.live[0].tokens, -math.inf)] * (width - len(self.live))

    def parents(self) -> list[int]:
        """The row before, for each of all beams."""
        return self.came_from + self.came_from[:1] * (self.options.beams - len(self.came_from))

    def advance(self, candidates: Sequence[Candidate]) -> None:
        """Take the best candidates, best first. EOS counts where it is among the first `beams`, so that a beam of one
        is greedy search."""
        live: list[Draft] = []
        self.came_from = []
        for rank, (score, parent, token) in enumerate(candidates):
            if score == -math.inf or len(live) == self.options.beams:
                break
            before = self.live[parent].tokens
            if token != self.eos:
                self.came_from.append(parent)
                live.append(Draft([*before, token], score))
            elif rank < self.options.beams:
                self.ended.append(Draft(before, score).ended(self.options))
        self.live = live
        if live and len(live[0].tokens) == self.maximum:
            self.cut = [draft.ended(self.options, limited=True) for draft in live]
            self.live = []
        elif self.decided():
            self.live = []

    def decided(self) -> bool:
        """Whether to stop: with as many ended hypotheses as beams (`early_stop`), or when none that is live can still
        come among the `n_best`, even at no further cost and at the length that suits it best."""
        if self.options.early_stop:
            return len(self.ended) >= self.options.beams
        best = ranked(self.ended, self.options.n_best)
        if len(best) < self.options.n_best or not self.live:
            return False
        return self.options.normalised(self.live[0].score, self.maximum) <= best[-1].normalised

    def result(self) -> list[Hypothesis]:
        return ranked([*self.ended, *self.cut], self.options.n_best)


def beam_search(model: Seq2Seq, problem: Problem) -> list[list[Hypothesis]]:
    """The `n_best` hypotheses of each sentence. Sentences that are decided leave the batch."""
    source, width = problem.source, problem.options.beams
    searches = [Beam(problem.options, most, problem.eos) for most in problem.maximum]
    sentences = list(range(len(source)))
    cache = model.start(source, problem.planned, problem.positions)
    tokens = source.new_full((len(source), 1), problem.bos)
    beams = 1  # all beams begin alike, so the first step has one row a sentence
    for _ in range(problem.planned):
        logits = precise(model.step(tokens, cache)[:, -1])  # (N, V)
        drafts = [draft for sentence in sentences for draft in searches[sentence].rows(beams)]
        of_row = [sentence for sentence in sentences for _ in range(beams)]
        allowed = problem.constraints.applied(logits, drafts, of_row)
        scores = logits.new_tensor([draft.score for draft in drafts]) - logits.logsumexp(-1)
        parents: list[int] = []
        places: list[int] = []
        for place, candidates in enumerate(best(allowed, scores, len(sentences), 2 * width)):
            search = searches[sentences[place]]
            search.advance(candidates)
            if search.live:
                places.append(place)
                parents += [place * beams + parent for parent in search.parents()]
        if not places:
            break
        leaving = len(places) < len(sentences)
        if leaving or parents != list(range(len(drafts))):
            staying = torch.tensor(places, device=source.device) if leaving else None
            cache.select(torch.tensor(parents, device=source.device), staying)
        sentences, beams = [sentences[place] for place in places], width
        last = [draft.tokens[-1] for sentence in sentences for draft in searches[sentence].rows(width)]
        tokens = source.new_tensor(last)[:, None]
    return [search.result() for search in searches]


def best(logits: Tensor, scores: Tensor, sentences: int, count: int) -> list[list[Candidate]]:
    """The best continuations of each sentence, best first; logits (N, V), scores (N,) to be added to them.

    Only the best of each row are normalised: the others could not win.
    """
    values, tokens = top(logits, count)  # (N, C)
    totals = (values + scores[:, None]).view(sentences, -1)  # (B, beams * C)
    totals, index = totals.topk(min(count, totals.shape[-1]))
    chosen = tokens.view(sentences, -1).gather(-1, index)
    parents = index // values.shape[-1]
    columns = zip(totals.tolist(), parents.tolist(), chosen.tolist(), strict=True)
    return [list(zip(*each, strict=True)) for each in columns]
