"""`relformer benchmark decode`: tokens per second of greedy and beam search against other implementations."""

from __future__ import annotations

import statistics
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from matplotlib.figure import Figure

from relformer.benchmark.interleaved import Spread, ratio, taking_turns
from relformer.benchmark.options import Common, one_thread, parsed, usable
from relformer.benchmark.output import Column, deliver, number, times
from relformer.benchmark.peers import VOCABULARY, absent
from relformer.benchmark.plot import Bar, draw_bars
from relformer.benchmark.searches import Competitor, competitors
from relformer.errors import OptionError


@dataclass(frozen=True)
class DecodeBenchmark(Common):
    """The options: a batch of sources, and what is written for each."""

    batch: int = 8
    source: int = 24
    new_tokens: int = 32
    beams: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        self.at_least(1, "batch", "source", "new_tokens")
        if self.beams < 2:
            raise OptionError("beams", self.beams, "must be at least 2; greedy search is measured anyway")


@dataclass(frozen=True)
class Row:
    """One search of one competitor, with medians; `ours_is` says how many times as fast relformer's was."""

    system: str
    search: str
    parameters: int
    milliseconds: float
    tokens_per_second: float
    ours_is: Spread


def benchmark_decode(arguments: list[str]) -> list[Row]:
    """Measure, print the table, and write the files that `out` and `plot` name.

    Raises:
        UserError: options that are unknown or make no sense.
    """
    options = parsed(DecodeBenchmark, arguments)
    device = usable(options.device)
    generator = torch.Generator().manual_seed(0)
    source = torch.randint(3, VOCABULARY, (options.batch, options.source), generator=generator).to(device)
    with one_thread():
        rows = measured(competitors(source, options.new_tokens), options, device)
    what = f"{options.batch} sources of {options.source} tokens, {options.new_tokens} new tokens each"
    title = f"{what}, t5 positions, {options.device}: {options.clock}"
    deliver(rows, options, title, COLUMNS, [absent()], lambda: drawing(rows))
    return rows


def measured(systems: list[Competitor], options: DecodeBenchmark, device: torch.device) -> list[Row]:
    """All searches of all systems in turn."""
    searches = {"greedy": 1, f"beam {options.beams}": options.beams}
    runs = {
        (search, system.name): system.search(beams)
        for search, beams in searches.items()
        for system in systems
        if beams == 1 or system.beam
    }
    names = {f"{search}, {name}": run for (search, name), run in runs.items()}
    with ExitStack() as held:
        for system in systems:
            held.enter_context(system.around())
        seconds = taking_turns(names, options.repeats, device)
    parameters = {system.name: system.parameters for system in systems}
    rows = []
    for search, name in runs:
        median = statistics.median(seconds[f"{search}, {name}"])
        faster = ratio(seconds, f"{search}, {name}", f"{search}, {systems[0].name}")
        tokens = options.batch * options.new_tokens / median
        rows.append(Row(name, search, parameters[name], 1000 * median, tokens, faster))
    return rows


COLUMNS: list[Column] = [
    ("search", lambda row: row.search),
    ("system", lambda row: row.system),
    ("|parameters", lambda row: number(row.parameters)),
    ("|ms", lambda row: number(row.milliseconds)),
    ("|tokens/s", lambda row: number(row.tokens_per_second)),
    ("|relformer is so many times as fast", lambda row: "" if row.system == "relformer" else times(row.ours_is)),
]


def drawing(rows: list[Row]) -> Figure:
    """Tokens per second by search."""
    bars = {row.search: list[Bar]() for row in rows}
    for row in rows:
        bars[row.search].append(Bar(row.system, Spread(*[row.tokens_per_second] * 3)))
    return draw_bars(list(bars.items()), "tokens per second")
