"""BLEU, chrF and TER of lines of text, by sacreBLEU (Post 2018, arXiv:1804.08771), with its signatures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from relformer.errors import UserError

METRICS = ("bleu", "chrf", "ter")
TOKENIZERS = ("13a", "intl", "zh", "char", "none")
"""What `eval.bleu_tokenize` may be."""
PERCENT = ("bleu", "chrf")
"""Those from 0 to 100, of which more is better."""


def text_scores(
    hypotheses: Sequence[str], references: Sequence[str], bootstrap: int = 0, tokenize: str = "13a"
) -> dict[str, Any]:
    """Corpus scores, cased, on plain text.

    Args:
        tokenize: what sacreBLEU does to the text for BLEU; none for text that is tokenised already.
        bootstrap: so many resamples of sentences give each score a 95 % interval, `low` to `high`: of how it would vary
            with other sentences, not with another training run. Left out of so few that a resample matches nowhere.

    Raises:
        UserError: not one hypothesis for each reference, or nothing to score.
    """
    if len(hypotheses) != len(references) or not references:
        raise UserError(f"{len(hypotheses)} outputs for {len(references)} references; there must be one for each")
    from sacrebleu import BLEU, CHRF, TER

    found: dict[str, Any] = {}
    bleu = BLEU(tokenize=tokenize, force=tokenize == "none")  # forced: no warning of tokens that are meant
    for name, metric in zip(METRICS, (bleu, CHRF(), TER()), strict=True):
        lines, resampled = (list(hypotheses), [list(references)]), bootstrap > 0
        try:
            score = metric.corpus_score(*lines, n_bootstrap=bootstrap or 1)
        except TypeError:  # sacreBLEU 2.6 can't average a resample without any match (a float) with others (float32)
            score, resampled = metric.corpus_score(*lines), False
        signature = str(metric.get_signature())
        found[name] = {"score": score.score, "signature": signature}
        if resampled:
            said = json.loads(score.format(width=6, signature=signature, is_json=True))
            mean, half = said.get("confidence_mean", score.score), said.get("confidence_var", 0.0)
            found[name] |= {"low": max(0.0, mean - half), "high": mean + half}
    return found


def scores_of(run: Mapping[str, Any], name: str) -> dict[str, float]:
    """BLEU, chrF and TER of a set in a run's `metrics.json`, where its text was decoded whole."""
    found = run.get("generated", {}).get(name, {})
    return {metric: float(found[metric]["score"]) for metric in METRICS if metric in found}


def bleu_counts(hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a") -> NDArray[np.float64]:
    """What BLEU of a set is computed from, (sentences, 10): n-grams found and written of 1 to 4, both lengths."""
    from sacrebleu import BLEU

    metric = BLEU(tokenize=tokenize, force=True)
    rows = (metric.corpus_score([one], [[other]]) for one, other in zip(hypotheses, references, strict=True))
    return np.array([[*row.counts, *row.totals, row.sys_len, row.ref_len] for row in rows], dtype=np.float64)


def bleu_of(counts: NDArray[np.float64]) -> float:
    """BLEU of the sum (10,) of `bleu_counts` over a set."""
    from sacrebleu import BLEU

    *grams, written, expected = (int(count) for count in counts)
    return float(BLEU.compute_bleu(grams[:4], grams[4:], written, expected, smooth_method="exp").score)


def tokenizer_of(signature: str) -> str | None:
    """`13a` of nrefs:1|case:mixed|eff:no|tok:13a|...; None where it says none that `text_scores` takes."""
    said = [part.removeprefix("tok:") for part in signature.split("|") if part.startswith("tok:")]
    return said[0] if said and said[0] in TOKENIZERS else None
