"""What a run ends with: the table by length, `metrics.json`, `examples.jsonl`, `length_curve.png`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from torch import Tensor

from relformer.data.encoded import Corpus, Side
from relformer.data.task import any_beyond
from relformer.evaluation.generation import Output, texts_of
from relformer.evaluation.outcomes import COLUMNS
from relformer.evaluation.scores import METRICS
from relformer.evaluation.summary import bucketed, length_label, summarise
from relformer.figures.heatmap import save_png
from relformer.figures.length_curve import Curve, draw_length_curve
from relformer.files import write_json, write_text

FEW = 100
"""Buckets with fewer examples are shown grey."""
LEARNED = 0.98
"""In-distribution exact match below which nothing beyond the trained length can be interpreted."""

Rows = Mapping[str, Tensor]
"""Outcomes by set name."""


def print_table(rows: Rows, title: str, side: Side = "target") -> None:
    """Exact match and its companions by set and length."""
    table = Table(title=title, caption=f"length: {side} tokens without BOS and EOS; interval: Wilson, 95 %")
    for name in (
        "set",
        "length",
        "n",
        "exact match",
        "interval",
        "oracle EOS",
        "correct prefix",
        "token accuracy",
        "loss",
    ):
        table.add_column(name, justify="left" if name == "set" else "right", no_wrap=True)
    for name, outcomes in rows.items():
        summary = summarise(outcomes)
        buckets = bucketed(outcomes, side)
        for bucket in buckets if len(buckets) > 1 else []:
            table.add_row(
                name, length_label(bucket), *cells(bucket), style="bright_black" if bucket["n"] < FEW else None
            )
        table.add_row(name, "all", *cells(summary), style="bold", end_section=True)
    Console(width=None if Console().is_terminal else 120).print(table)


def cells(figures: Mapping[str, Any]) -> list[str]:
    return [
        str(figures["n"]),
        f"{figures['exact_match']:.3f}",
        f"{figures['exact_match_low']:.3f} - {figures['exact_match_high']:.3f}",
        *(f"{figures[key]:.3f}" for key in ("exact_match_oracle_eos", "correct_prefix", "token_accuracy", "loss")),
    ]


def unlearned(exact_matches: Sequence[float], sets: Iterable[str], data: Mapping[str, Any]) -> list[float]:
    """Those in-distribution exact matches of runs on `data` that are too low to interpret what lies beyond. None where
    no set does, and of text in pieces of words, or as a given tokenizer has it: nobody asks it to be right to the
    token."""
    tokenizer = data.get("tokenizer") or {"kind": "word"}
    exact = tokenizer.get("kind") == "word" and not tokenizer.get("file")
    return [value for value in exact_matches if value < LEARNED] if exact and any_beyond(sets) else []


def caution(rows: Rows, data: Mapping[str, Any]) -> str | None:
    """A sentence where the run has not learned its own distribution, so that longer results mean nothing."""
    iid = [summarise(rows["test_iid"])["exact_match"]] if "test_iid" in rows else []
    if not (weak := unlearned(iid, rows, data)):
        return None
    return (
        f"in-distribution exact match is {weak[0]:.3f} < {LEARNED}: "
        "the beyond-length result is not interpretable; train longer"
    )


def write_examples(rows: Rows, path: Path) -> None:
    """One JSON line an example: its set, its number there, and its outcome, for comparing runs sentence by sentence."""
    lines = []
    for name, outcomes in rows.items():
        for row in outcomes.tolist():
            record = dict(zip(COLUMNS, row, strict=True))
            counts = {key: int(value) for key, value in record.items() if key != "loss"}
            lines.append(json.dumps({"set": name, **counts, "loss": record["loss"]}))
    write_text(path, "\n".join(lines) + "\n")


def draw_curve(rows: Rows, title: str, trained_length: int, path: Path, side: Side = "target") -> None:
    """Exact match by length, one curve a set."""
    curves = []
    for name, outcomes in rows.items():
        lengths = summarise(outcomes, side)["by_length"]
        curves.append(
            Curve(
                label=name,
                lengths=[bucket["min_length"] for bucket in lengths],
                labels=[length_label(bucket) for bucket in lengths],
                value=[bucket["exact_match"] for bucket in lengths],
                low=[bucket["exact_match_low"] for bucket in lengths],
                high=[bucket["exact_match_high"] for bucket in lengths],
                n=[bucket["n"] for bucket in lengths],
            )
        )
    save_png(draw_length_curve(curves, title, trained_length, side), path)


def write_report(
    rows: Rows, metrics: Mapping[str, Any], title: str, trained_length: int, directory: Path, side: Side = "target"
) -> None:
    """The files of a run or an evaluation: figures, outcomes of the tests, picture."""
    tests = {name: outcomes for name, outcomes in rows.items() if name.startswith("test_")}
    write_examples(tests, directory / "examples.jsonl")
    draw_curve(tests, title, trained_length, directory / "length_curve.png", side)
    write_json(directory / "metrics.json", metrics)


def write_outputs(generated: Mapping[str, list[Output]], corpus: Corpus, directory: Path) -> None:
    """`outputs.jsonl`: source, reference and output of every decoded test example."""
    lines = []
    for name, outputs in generated.items():
        if not name.startswith("test_"):
            continue
        examples = corpus.sets[name]
        for output, hypothesis, reference in zip(
            outputs, *texts_of(outputs, examples, corpus.target_vocabulary), strict=True
        ):
            source = corpus.source_vocabulary.decode(examples.sources[output.index])
            record = {"set": name, "index": output.index, "source": source, "reference": reference}
            limit = {"reached_limit": True} if output.reached_limit else {}
            lines.append(json.dumps(record | {"output": hypothesis} | limit, ensure_ascii=False) + "\n")
    if lines:
        write_text(directory / "outputs.jsonl", "".join(lines))


def print_generation(generated: Mapping[str, Mapping[str, Any]], decoding: Mapping[str, Any]) -> None:
    """BLEU, chrF and TER of decoded sets by length, with their signatures; how outputs' lengths compare."""
    scored = {name: figures for name, figures in generated.items() if "bleu" in figures}
    if scored:
        search = f"beam search, {decoding['beams']} beams" if decoding["beams"] > 1 else "greedy"
        search = "sampling" if decoding["sample"] else search
        table = Table(title=f"decoded by {search}", caption="interval: bootstrap over sentences, 95 %")
        for name in ("set", "length", "n", "BLEU", "interval", "chrF", "TER", "reached limit"):
            table.add_column(name, justify="left" if name == "set" else "right", no_wrap=True)
        for name, figures in scored.items():
            for bucket in figures["by_length"]:
                few = "bright_black" if bucket["n"] < FEW else None
                table.add_row(name, length_label(bucket), *score_cells(bucket), style=few)
            table.add_row(name, "all", *score_cells(figures), style="bold", end_section=True)
        Console(width=None if Console().is_terminal else 120).print(table)
        for metric in METRICS:
            print(f"{metric:<9}{next(iter(scored.values()))[metric]['signature']}")
    for name, figures in generated.items():
        counts = {int(key): count for key, count in figures["length_difference"].items()}
        total = figures["n"]
        parts = {"shorter than": sum(c for k, c in counts.items() if k < 0), "as long as": counts.get(0, 0)}
        parts["longer than"] = total - sum(parts.values())
        said = ", ".join(f"{count / total:.1%} {how}" for how, count in parts.items())
        limit = f"; {figures['reached_limit']:,} of {total:,} outputs reached the limit"
        print(f"{name:<14}{said} the reference{limit if figures['reached_limit'] else ''}")


def score_cells(figures: Mapping[str, Any]) -> list[str]:
    bleu = figures["bleu"]
    interval = f"{bleu['low']:.1f} - {bleu['high']:.1f}" if "low" in bleu else ""
    scores = [f"{figures[metric]['score']:.1f}" for metric in METRICS]
    return [str(figures["n"]), scores[0], interval, *scores[1:], str(figures["reached_limit"])]
