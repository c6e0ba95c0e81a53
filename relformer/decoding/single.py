"""Greedy search and sampling: every row of the batch takes one token a step and never looks back."""

from __future__ import annotations

import torch

from relformer.decoding.hypothesis import EMPTY, Draft, Hypothesis, ranked
from relformer.decoding.problem import Problem
from relformer.decoding.sampling import drawn, uniforms
from relformer.encodings.precision import precise
from relformer.model import Seq2Seq


def token_by_token(model: Seq2Seq, problem: Problem) -> list[list[Hypothesis]]:
    """The most probable tokens, or `n_best` samples of each sentence. Sentences that have ended leave the batch."""
    options, source = problem.options, problem.source
    copies = options.n_best if options.sample else 1
    found: list[list[Hypothesis]] = [[] for _ in source]
    live = list(range(len(source)))
    drafts = [EMPTY] * (len(live) * copies)
    done = [False] * len(drafts)
    chance = uniforms(source, model.pad, options.seed, problem.maximum, copies) if options.sample else None
    cache = model.start(source, problem.planned)
    tokens = source.new_full((len(source), 1), problem.bos)

    for step in range(problem.planned):
        logits = precise(model.step(tokens, cache)[:, -1])  # (N, V)
        if step == 0 and copies > 1:
            rows = torch.arange(len(live), device=source.device).repeat_interleave(copies)
            logits = logits[rows]
            cache.select(rows)
        of_row = [sentence for sentence in live for _ in range(copies)]
        allowed = problem.constraints.applied(logits, drafts, of_row)
        if chance is None:
            values, chosen = allowed.max(-1)
        else:
            chosen = drawn(allowed, chance[:, step].flatten(), options.temperature, options.top_k, options.top_p)
            values = logits.gather(-1, chosen[:, None])[:, 0]
        gains = (values - logits.logsumexp(-1)).tolist()
        for row, (token, gain) in enumerate(zip(chosen.tolist(), gains, strict=True)):
            if done[row]:
                continue
            sentence, draft = of_row[row], drafts[row]
            ended = token == problem.eos
            drafts[row] = Draft(draft.tokens if ended else [*draft.tokens, token], draft.score + gain)
            done[row] = ended or step + 1 == problem.maximum[sentence]
            if done[row]:
                found[sentence].append(drafts[row].ended(options, limited=not ended))
        places = [place for place, sentence in enumerate(live) if len(found[sentence]) < copies]
        if not places:
            break
        if len(places) < len(live):
            rows_left = [place * copies + copy for place in places for copy in range(copies)]
            staying = torch.tensor(places, device=source.device)
            rows = torch.tensor(rows_left, device=source.device)
            cache.select(rows, staying)
            chosen = chosen[rows]
            chance = None if chance is None else chance[staying]
            live = [live[place] for place in places]
            drafts, done = [drafts[row] for row in rows_left], [done[row] for row in rows_left]
        tokens = chosen[:, None]
    return [ranked(each, copies) for each in found]
