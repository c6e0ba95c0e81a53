"""`relformer benchmark step`: a whole training step with each encoding, against none and other implementations."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from matplotlib.figure import Figure

from relformer.benchmark.chosen import Chosen, chosen, left_out, parted
from relformer.benchmark.interleaved import Measured, Spread, taking_turns
from relformer.benchmark.memory import peak
from relformer.benchmark.options import Common, choices, lengths_of, one_thread, parsed, refuse_padding, usable
from relformer.benchmark.output import Column, deliver, number, times
from relformer.benchmark.peers import FEEDFORWARD, HEADS, LAYERS, VOCABULARY, WIDTH, absent
from relformer.benchmark.plot import Bar, draw_bars
from relformer.benchmark.trainees import Trainee, others, ours, random_batch
from relformer.errors import OptionError

WHAT = ("time", "memory")
FLOOR = "none"


@dataclass(frozen=True)
class StepBenchmark(Common):
    """The options. A batch has at most `tokens` positions a side, of which the share `padding` is padding; `peers` says
    whether other people's implementations take part."""

    encodings: str = "t5,alibi,rope,learned"
    lengths: str = "128,512"
    what: str = "time,memory"
    tokens: int = 2048
    padding: float = 0.05
    peers: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        choices("what", self.what, WHAT)
        longest = max(lengths_of(self.lengths))
        if self.tokens < longest:
            raise OptionError("tokens", self.tokens, f"must hold a sentence of {longest}, the longest of lengths")
        refuse_padding(self.padding, self.tokens // longest)


@dataclass(frozen=True)
class Row:
    """One system at one length. `ours_is` compares relformer's step, with the system's own encoding, to its step: less
    than 1 is faster. MB are of model, optimizer and step together."""

    system: str
    length: int
    parameters: int
    milliseconds: float | None
    over_none: Spread | None
    ours_is: Spread | None
    megabytes: float | None
    megabytes_over_none: float | None
    ours_megabytes: float | None


def benchmark_step(arguments: list[str]) -> list[Row]:
    """Measure, print the table, and write the files that `out` and `plot` name.

    Raises:
        UserError: options that are unknown or make no sense, or an encoding that serves no decoder.
    """
    general, own = parted(arguments)
    options = parsed(StepBenchmark, general)
    asked = chosen(options.encodings, own)
    device, lengths = usable(options.device), lengths_of(options.lengths)
    refusing = asked.refusing(["decoder"])
    names = [name for name in asked.names if name not in (*refusing, FLOOR)]
    rows: list[Row] = []
    with one_thread():
        for length in lengths:
            rows += at_length(systems(asked, names, length, max(lengths), options.peers), length, options, device)
    notes = [left_out(refusing, "without a definition in a decoder"), absent() if options.peers else ""]
    deliver(rows, options, title(options), COLUMNS, notes, lambda: drawing(rows))
    return rows


def systems(asked: Chosen, names: list[str], length: int, longest: int, peers: bool) -> dict[str, Trainee]:
    made = [ours(FLOOR, {}), *(ours(name, asked.of(name, longest)) for name in names)]
    return {each.name: each for each in (*made, *(others(length) if peers else ()))}


def at_length(found: dict[str, Trainee], length: int, options: StepBenchmark, device: torch.device) -> Iterator[Row]:
    print(f"measuring {len(found)} systems, L={length}", file=sys.stderr)
    what = choices("what", options.what, WHAT)
    batch = random_batch(options.tokens // length, length, options.padding, device)
    peaks = (
        {n: peak(partial(each.whole, batch, device), device) for n, each in found.items()} if "memory" in what else {}
    )
    steps = {name: each.step(device) for name, each in found.items()}
    runs = {name: partial(step, batch) for name, (step, _) in steps.items()}
    measured = Measured(taking_turns(runs, options.repeats, device) if "time" in what else {}, peaks)
    for name, (_, parameters) in steps.items():
        yield Row(
            name,
            length,
            parameters,
            measured.milliseconds(name),
            measured.slower(name, FLOOR),
            measured.slower(found[name].partner, name),
            measured.peaks.get(name),
            measured.larger(name, FLOOR),
            measured.larger(found[name].partner, name),
        )


COLUMNS: list[Column] = [
    ("|length", lambda row: str(row.length)),
    ("system", lambda row: row.system),
    ("|parameters", lambda row: number(row.parameters)),
    ("|ms", lambda row: number(row.milliseconds)),
    ("|/ none", lambda row: times(row.over_none)),
    ("|relformer / it", lambda row: times(row.ours_is)),
    ("|peak MB", lambda row: number(row.megabytes)),
    ("|MB / none", lambda row: number(row.megabytes_over_none, 2)),
    ("|relformer MB / it", lambda row: number(row.ours_megabytes, 2)),
]


def title(options: StepBenchmark) -> str:
    model = f"{LAYERS}+{LAYERS} layers, width {WIDTH}, {HEADS} heads, feed-forward {FEEDFORWARD}, {VOCABULARY} words"
    batch = f"at most {options.tokens} positions a side, {options.padding:.0%} padding, no dropout, float32"
    rounds = f": {options.clock}" if "time" in choices("what", options.what, WHAT) else ""
    return (
        f"one training step: {model}\n{batch}, {options.device}{rounds}\n"
        "relformer / it: relformer's step with the same positions over this one; MB of model, optimizer and step"
    )


def drawing(rows: list[Row]) -> Figure:
    """Steps in times that of no positions, or peaks in MB where no time was taken; a panel a length."""
    timed = rows[0].over_none is not None
    bars = {f"L={row.length}": list[Bar]() for row in rows}
    for row in rows:
        value = row.over_none if timed else Spread(*[row.megabytes or 0.0] * 3)
        assert value is not None
        bars[f"L={row.length}"].append(Bar(row.system, value))
    label = "time of a training step, times that without positions" if timed else "peak memory of training (MB)"
    return draw_bars(list(bars.items()), label, 1.0 if timed else None)
