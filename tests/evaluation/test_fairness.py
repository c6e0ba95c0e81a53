"""What stands against a comparison is said, and nothing of one that is fair."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from relformer.evaluation.compare import compare_runs, compared
from tests.evaluation.simulated import config, warned, write_groups, write_numbers

FAULTS: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "tuned on the test": ({}, {"tuned_on_test": True}, "t5", "options were chosen on the test sets"),
    "unequal steps": ({"max_steps": 300}, {}, "all", "unequal steps"),
    "stopped": ({}, {"checkpoints": {"last": {"step": 60, "test_iid": {"exact_match": 1.0}}}}, "t5", "stopped before"),
    "bos": ({"data": {"name": "reverse", "seed": 0, "bos": False}}, {}, "all", "unequal data.bos"),
    "other data": ({"data": {"name": "copy", "seed": 0, "bos": True}}, {}, "all", "different data"),
    "scores": ({}, {"generated": {"test_iid": {"bleu": {"score": 31.0, "signature": "tok:zh"}}}}, "all", "tok:zh"),
    "checkpoints": ({}, {"checkpoint": "best_val"}, "all", "some runs report checkpoint best_val"),
}


@pytest.mark.parametrize(("options", "run", "about", "text"), FAULTS.values(), ids=FAULTS)
def test_every_rule_that_is_broken_is_said(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: Mapping[str, Any],
    run: Mapping[str, Any],
    about: str,
    text: str,
) -> None:
    for seed in range(5):
        write_numbers(tmp_path / f"t5{seed}", config(seed, "t5", **options), 0.5, **run)
        scored = {"test_iid": {"bleu": {"score": 30.0, "signature": "tok:13a"}}}
        write_numbers(tmp_path / f"alibi{seed}", config(seed, "alibi"), 0.5, generated=scored)
    compare_runs([str(tmp_path)])
    said = capsys.readouterr().out
    assert text in said and any(text in line for line in said.splitlines() if ": " in line)
    if about != "all":
        label = next(label for label in compared([str(tmp_path)]).labels if label.startswith("t5"))
        assert any(text in line for line in warned(said, label))


def test_a_fair_comparison_is_not_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compare_runs([str(write_groups(tmp_path, {"t5": 0.5, "alibi": 0.6}, each=15))])
    said = capsys.readouterr().out
    assert not any(warned(said, about) for about in ("t5", "alibi", "all"))


def test_steps_that_were_matched_are_no_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for matched in ("flops", "time", None):
        for seed in range(5):
            more = {"matched": matched}
            write_numbers(tmp_path / f"{matched}/t5{seed}", config(seed, "t5", max_steps=90), 0.5, **more)
            write_numbers(tmp_path / f"{matched}/alibi{seed}", config(seed, "alibi"), 0.5, **more)
        compare_runs([str(tmp_path / str(matched))])
        said = capsys.readouterr().out
        assert ("unequal steps" in said) == (matched is None) == (f"matched by {matched}" not in said)


def test_a_set_of_few_sentences_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compare_runs([str(write_groups(tmp_path, {"t5": 0.5}, each=10))])
    assert warned(capsys.readouterr().out, "t5") == [
        "t5: test_longer has 80 sentences; below 100 its figures are rough"
    ]


def test_scores_that_some_runs_lack_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scored = {metric: {"score": 30.0, "signature": "-"} for metric in ("bleu", "chrf")}
    for encoding, having in {"t5": range(5), "alibi": (1, 2)}.items():
        for seed in range(5):
            found = scored if seed in having else {}
            if encoding == "alibi" and seed == 2:
                found = found | {"chrf": {"score": 40.0, "signature": "nw:2"}}
            write_numbers(tmp_path / f"{encoding}{seed}", config(seed, encoding), 0.5, generated={"test_iid": found})
    compare_runs([str(tmp_path)])
    printed = capsys.readouterr().out
    said = warned(printed, "all")
    assert any("no BLEU of test_iid in some runs (alibi, seeds 0, 3, 4)" in line for line in said)
    assert any("chrF is not scored alike (alibi, t5: -; alibi: nw:2)" in line for line in said)
    assert not any("BLEU is not scored alike" in line for line in said)
    assert "30.00 ± 0.00 [30.00, 30.00] (n 2)" in printed
