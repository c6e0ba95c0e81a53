"""sacreBLEU as we call it: one hypothesis a reference, cased, with an interval over sentences and the signature."""

from typing import get_args, get_type_hints

import pytest
import sacrebleu

from relformer.errors import UserError
from relformer.evaluation.scores import METRICS, TOKENIZERS, text_scores, tokenizer_of
from relformer.schema import EvalOptions

REFERENCES = [
    "The dog bit the man.",
    "It was not unexpected.",
    "The man bit him first.",
    "Nobody saw it happen at all.",
]
OUTPUTS = [
    "The dog bit the man.",
    "It wasn't surprising.",
    "The man had just bitten him.",
    "nobody saw it happen at all.",
]


def test_the_right_output_is_right() -> None:
    found = text_scores(REFERENCES, REFERENCES)
    assert (found["bleu"]["score"], found["chrf"]["score"]) == pytest.approx((100, 100))
    assert found["ter"]["score"] == 0


def test_the_scores_are_sacrebleus() -> None:
    """Also in the nesting of references, which is easily got wrong: one list of references, not one a sentence."""
    found = text_scores(OUTPUTS, REFERENCES)
    assert found["bleu"]["score"] == sacrebleu.corpus_bleu(OUTPUTS, [REFERENCES]).score
    assert 20 < found["bleu"]["score"] < 60
    assert found["chrf"]["score"] == sacrebleu.corpus_chrf(OUTPUTS, [REFERENCES]).score
    assert found["ter"]["score"] == sacrebleu.corpus_ter(OUTPUTS, [REFERENCES]).score
    assert "tok:13a" in found["bleu"]["signature"] and "case:mixed" in found["bleu"]["signature"]


def test_case_counts() -> None:
    lower = [text.lower() for text in REFERENCES]
    assert text_scores(lower, REFERENCES)["bleu"]["score"] < 99


def test_an_interval_lies_around_the_score_and_narrows_with_more_sentences() -> None:
    widths = []
    for times in (2, 50):
        found = text_scores(OUTPUTS * times, REFERENCES * times, bootstrap=200)
        for metric in METRICS:
            assert found[metric]["low"] < found[metric]["high"]
        widths.append(found["chrf"]["high"] - found["chrf"]["low"])
        assert "bs:200" in found["bleu"]["signature"]
    assert widths[1] < widths[0] / 3


def test_an_output_for_each_reference() -> None:
    with pytest.raises(UserError, match="3 outputs for 4 references; there must be one for each"):
        text_scores(OUTPUTS[:3], REFERENCES)
    with pytest.raises(UserError, match="0 outputs for 0 references"):
        text_scores([], [])


def test_empty_outputs_and_references_are_scored() -> None:
    found = text_scores(["", *OUTPUTS[1:], "one too many"], [*REFERENCES, ""], bootstrap=50)
    assert 0 < found["bleu"]["score"] < text_scores(OUTPUTS, REFERENCES)["bleu"]["score"]


def test_tokenizers_are_those_that_a_run_may_name() -> None:
    assert get_args(get_type_hints(EvalOptions)["bleu_tokenize"]) == TOKENIZERS
    assert [tokenizer_of(said) for said in ("nrefs:1|tok:zh|smooth:exp", "tok:ja-mecab", "-")] == ["zh", None, None]
