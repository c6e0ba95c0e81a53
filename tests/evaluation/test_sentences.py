"""Trained models on the same sentences: their outcomes, and the text that they wrote."""

import csv
import json
import random
import re
from pathlib import Path

import numpy as np
import pytest
from sacrebleu import BLEU
from sacrebleu.significance import PairedTest
from scipy import stats

from relformer.errors import UserError
from relformer.evaluation.compare import compare_runs, compared
from relformer.evaluation.differences import Difference
from relformer.evaluation.scores import bleu_counts, bleu_of, text_scores
from relformer.evaluation.statistics import bootstrap_of_scores, mcnemar
from tests.evaluation.simulated import config, write_groups, write_numbers

WORDS = list("abcdefgh")


def sentences(n: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(5, 12))) for _ in range(n)]


def garbled(references: list[str], share: float, seed: int) -> list[str]:
    """The references with about so many words replaced."""
    draw = random.Random(seed)
    return [" ".join(draw.choice(WORDS) if draw.random() < share else w for w in r.split()) for r in references]


def test_sentences_are_compared_run_by_run(tmp_path: Path) -> None:
    home = write_groups(tmp_path, {"t5": 0.3, "alibi": 0.6}, seeds=5, each=20)
    (found,) = (
        each for each in compared([str(home)]).differences if (each.set, each.figure) == ("test_longer", "exact_match")
    )
    assert found.sentences is not None and found.sentences.n == 160
    for seed, p in found.sentences.p_by_seed.items():
        right = []
        for encoding in ("alibi", "t5"):
            lines = map(json.loads, (home / f"{encoding}{seed}" / "examples.jsonl").read_text().splitlines())
            right.append(np.array([line["exact_match"] == 1 for line in lines if line["set"] == "test_longer"]))
        assert p == mcnemar(*right).p_mid
    assert found.sentences.low < found.mean < found.sentences.high


def test_outcomes_of_other_sentences_are_refused(tmp_path: Path) -> None:
    home = write_groups(tmp_path, {"t5": 0.3, "alibi": 0.6}, seeds=2, each=3)
    path = home / "alibi1" / "examples.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line.replace('"target_length": 13', '"target_length": 12') for line in lines) + "\n")
    with pytest.raises(UserError, match="hold other sentences in test_longer"):
        compared([str(home)])
    path.write_text("\n".join([*lines[:3], "{}"]) + "\n")
    with pytest.raises(UserError, match=r"alibi1/examples\.jsonl:4 is not the outcome of a sentence"):
        compared([str(home)])


def write_text_runs(home: Path, shares: dict[str, float], seeds: int = 2, n: int = 40) -> list[str]:
    """So many seeds of each encoding, whose outputs have such shares of wrong words; the references."""
    references = sentences(n)
    for encoding, share in shares.items():
        for seed in range(seeds):
            outputs = garbled(references, share, seed)
            found = {"test_iid": text_scores(outputs, references)}
            path = write_numbers(home / f"{encoding}{seed}", config(seed, encoding), 0.0, generated=found)
            lines = [
                {"set": "test_iid", "index": index, "source": "-", "reference": reference, "output": output}
                for index, (reference, output) in enumerate(zip(references, outputs, strict=True))
            ]
            path.with_name("outputs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in reversed(lines)))
    return references


def of_bleu(home: Path) -> Difference:
    return next(each for each in compared([str(home)], baseline="t5").differences if each.figure == "bleu")


def test_bleu_of_resampled_sentences_is_sacrebleus() -> None:
    references = sentences(60)
    ours, theirs = garbled(references, 0.3, 1), garbled(references, 0.36, 2)
    one, other = bleu_counts(ours, references), bleu_counts(theirs, references)
    for counts, outputs in ((one, ours), (other, theirs)):
        assert bleu_of(counts.sum(0)) == pytest.approx(text_scores(outputs, references)["bleu"]["score"])
    found = bootstrap_of_scores(one[None], other[None], bleu_of)
    assert found == bootstrap_of_scores(one[None], other[None], bleu_of)
    named = [("theirs", theirs), ("ours", ours)]
    _, scores = PairedTest(named, {"BLEU": BLEU()}, [references], test_type="bs", n_samples=1000)()
    assert 2 * scores["BLEU"][1].p_value == pytest.approx(found.p[0], abs=0.03)  # theirs is of one tail
    drawn = stats.bootstrap(
        (np.arange(60),),
        lambda chosen: bleu_of(one[chosen].sum(0)) - bleu_of(other[chosen].sum(0)),
        n_resamples=1000,
        vectorized=False,
        method="percentile",
        rng=1,
    ).confidence_interval
    assert (found.low, found.high) == pytest.approx((drawn.low, drawn.high), abs=0.1 * (drawn.high - drawn.low))


def test_pairs_of_models_share_their_resamples() -> None:
    references = sentences(30)
    one, other, third = (bleu_counts(garbled(references, share, 3), references) for share in (0.2, 0.3, 0.4))
    both = bootstrap_of_scores(np.array([one, one]), np.array([other, third]), bleu_of)
    alone = [bootstrap_of_scores(one[None], each[None], bleu_of) for each in (other, third)]
    assert both.p == [each.p[0] for each in alone]
    assert both.mean == pytest.approx(np.mean([each.mean for each in alone]))
    assert alone[0].low < both.low < both.high < alone[1].high
    assert bootstrap_of_scores(one[None], one[None], bleu_of).p == [1.0]
    assert bootstrap_of_scores(one[None, :1], other[None, :1], bleu_of).p == [1.0]  # one sentence resamples to itself


def test_text_is_compared_over_sentences_by_bleu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_text_runs(tmp_path, {"t5": 0.5, "alibi": 0.1})
    compare_runs([str(tmp_path)], baseline="t5", csv=tmp_path / "all.csv")
    found = of_bleu(tmp_path)
    assert found.sentences is not None and found.sentences.n == 40
    assert found.sentences.mean == pytest.approx(found.mean)
    assert 0 < found.sentences.low < found.mean < found.sentences.high
    assert list(found.sentences.p_by_seed) == [0, 1] and max(found.sentences.p_by_seed.values()) < 0.01
    printed = capsys.readouterr().out
    line = next(line for line in printed.split("over sentences", 1)[1].splitlines() if "BLEU" in line)
    assert f"{found.mean:+.2f}" in line and "0: " in line
    (row,) = [
        row
        for row in csv.DictReader((tmp_path / "all.csv").open())
        if (row["figure"], row["runs"]) == ("bleu", "alibi") and row["baseline"]
    ]
    assert row["p_by_seed"].startswith("0:0.0") and row["n_over_sentences"] == "40"
    assert float(row["difference_over_sentences"]) == pytest.approx(found.sentences.mean)
    assert not any(each.sentences for each in compared([str(tmp_path)]).differences if each.figure == "chrf")


def test_text_that_can_not_be_paired(tmp_path: Path) -> None:
    write_text_runs(tmp_path, {"t5": 0.5, "alibi": 0.1})
    outputs = tmp_path / "alibi1" / "outputs.jsonl"
    whole, metrics = outputs.read_text(), (tmp_path / "alibi0" / "metrics.json").read_text()
    outputs.write_text(whole.replace('"reference": "', '"reference": "other ', 1))
    with pytest.raises(
        UserError, match=r"alibi1/outputs\.jsonl and .*alibi0/outputs\.jsonl hold other sentences in test_iid"
    ):
        compared([str(tmp_path)])
    outputs.write_text(whole + '{"set": "test_iid", "index": 9, "output": "no reference"}\n')
    with pytest.raises(
        UserError, match=r"alibi1/outputs\.jsonl:41 is not the outcome of a sentence \(KeyError: 'reference'\)"
    ):
        compared([str(tmp_path)])
    outputs.write_text(whole)
    (tmp_path / "alibi0" / "metrics.json").write_text(metrics.replace("tok:13a", "tok:char"))
    assert of_bleu(tmp_path).sentences is None
    (tmp_path / "alibi0" / "metrics.json").write_text(metrics)
    outputs.unlink()
    assert of_bleu(tmp_path).sentences is None


@pytest.mark.parametrize("file", ["examples.jsonl", "outputs.jsonl"])
def test_other_seeds_have_the_same_sentences(file: str, tmp_path: Path) -> None:
    """Those of one seed agree with each other and not with the first's."""
    if file == "examples.jsonl":
        write_groups(tmp_path, {"t5": 0.3, "alibi": 0.6}, seeds=2, each=3)
    else:
        write_text_runs(tmp_path, {"t5": 0.5, "alibi": 0.1})
    for name in ("t51", "alibi1"):
        path = tmp_path / name / file
        path.write_text(path.read_text().replace('"target_length": 13', '"target_length": 12').replace("a b", "b a"))
    with pytest.raises(UserError, match=r"1/.* and .*0/.* hold other sentences"):
        compared([str(tmp_path)], baseline="t5")


ENDLESS = b'{"set": "test_iid", "index": Infinity, "reference": "a", "output": "a"}'
NO_SENTENCE = r":41 is not the outcome of a sentence "
DAMAGE = {
    "short": (lambda lines: lines[:3], r"outputs\.jsonl has 3 sentences of test_iid, of which metrics\.json measured"),
    "endless": (lambda lines: [*lines, ENDLESS], rf"{NO_SENTENCE}\(OverflowError"),
    "no text": (lambda lines: [re.sub(b'"output": ".*"', b'"output": null', lines[0])], ":1 .*must be text"),
    "latin": (lambda lines: [*lines, b'{"set": "\xe4"}'], rf"{NO_SENTENCE}\(UnicodeDecodeError"),
    "deep": (lambda lines: [*lines, b"[" * 100_000], rf"{NO_SENTENCE}\(RecursionError"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_text_is_named(kind: str, tmp_path: Path) -> None:
    write_text_runs(tmp_path, {"t5": 0.5, "alibi": 0.1}, seeds=1)
    change, said = DAMAGE[kind]
    for path in tmp_path.glob("*/metrics.json"):
        run = json.loads(path.read_text())
        run["checkpoints"]["last"]["test_iid"]["n"] = 40
        path.write_text(json.dumps(run))
    path = tmp_path / "alibi0" / "outputs.jsonl"
    path.write_bytes(b"\n".join(change(path.read_bytes().splitlines())) + b"\n")
    with pytest.raises(UserError, match=said):
        compared([str(tmp_path)], baseline="t5")


def test_a_folder_in_place_of_text_is_no_text(tmp_path: Path) -> None:
    write_text_runs(tmp_path, {"t5": 0.5, "alibi": 0.1}, seeds=1)
    (tmp_path / "alibi0" / "outputs.jsonl").unlink()
    (tmp_path / "alibi0" / "outputs.jsonl").mkdir()
    assert of_bleu(tmp_path).sentences is None
