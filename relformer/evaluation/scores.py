"""BLEU, chrF and TER of lines of text, by sacreBLEU (Post 2018, arXiv:1804.08771), with its signatures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from relformer.errors import UserError

METRICS = ("bleu", "chrf", "ter")


def text_scores(hypotheses: Sequence[str], references: Sequence[str], bootstrap: int = 0) -> dict[str, Any]:
    """Corpus scores, cased, on plain text.

    Args:
        bootstrap: so many resamples of sentences give each score a 95 % interval, `low` to `high`: of how it would vary
            with other sentences, not with another training run.

    Raises:
        UserError: not one hypothesis for each reference, or nothing to score.
    """
    if len(hypotheses) != len(references) or not references:
        raise UserError(f"{len(hypotheses)} outputs for {len(references)} references; there must be one for each")
    from sacrebleu import BLEU, CHRF, TER

    found: dict[str, Any] = {}
    for name, metric in zip(METRICS, (BLEU(), CHRF(), TER()), strict=True):
        score = metric.corpus_score(list(hypotheses), [list(references)], n_bootstrap=bootstrap or 1)
        signature = str(metric.get_signature())
        found[name] = {"score": score.score, "signature": signature}
        if bootstrap:
            said = json.loads(score.format(width=6, signature=signature, is_json=True))
            half = said["confidence_var"]
            found[name] |= {"low": said["confidence_mean"] - half, "high": said["confidence_mean"] + half}
    return found
