"""`relformer benchmark decode`: tokens per second of greedy and beam search against other implementations."""

from __future__ import annotations

import csv
import io
import statistics
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path

import torch
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich import box
from rich.console import Console
from rich.table import Table

from relformer.benchmark.interleaved import ratio, taking_turns
from relformer.benchmark.peers import PEERS, VOCABULARY, Competitor, absent, competitors
from relformer.config import explain
from relformer.errors import OptionError, UserError
from relformer.files import write_text
from relformer.registry import did_you_mean


@dataclass(frozen=True)
class DecodeBenchmark:
    """The options: a batch of sources, what is written for each, and how often. `out` names a CSV file."""

    batch: int = 8
    source: int = 24
    new_tokens: int = 32
    beams: int = 5
    repeats: int = 7
    device: str = "cpu"
    out: str = ""

    def __post_init__(self) -> None:
        for name in ("batch", "source", "new_tokens", "repeats"):
            if getattr(self, name) < 1:
                raise OptionError(name, getattr(self, name), "must be at least 1")
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
    ours_is: float


def benchmark_decode(arguments: list[str]) -> list[Row]:
    """Measure, print the table, and write it where `out` says.

    Raises:
        UserError: options that are unknown or make no sense.
    """
    options = parsed(arguments)
    try:
        device = torch.device(options.device)
        generator = torch.Generator().manual_seed(0)
        source = torch.randint(3, VOCABULARY, (options.batch, options.source), generator=generator).to(device)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"device={options.device} can't be used here: {str(error).splitlines()[0]}") from None
    torch.set_num_threads(1)
    rows = measured(competitors(source, options.new_tokens), options, device)
    show(rows, options)
    if options.out:
        write_text(Path(options.out), as_csv(rows))
    return rows


def parsed(arguments: list[str]) -> DecodeBenchmark:
    known = [field.name for field in fields(DecodeBenchmark)]
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        if not equals or name not in known:
            raise UserError(f"no option {argument!r}{did_you_mean(name, known)}\n  options: {', '.join(known)}")
    try:
        merged = OmegaConf.merge(OmegaConf.structured(DecodeBenchmark), OmegaConf.from_dotlist(arguments))
        made = OmegaConf.to_object(merged)
    except OmegaConfBaseException as error:
        raise UserError(explain(error)) from None
    assert isinstance(made, DecodeBenchmark)
    return made


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
        times = taking_turns(names, options.repeats, device)
    parameters = {system.name: system.parameters for system in systems}
    rows = []
    for search, name in runs:
        seconds = statistics.median(times[f"{search}, {name}"])
        faster = ratio(times, f"{search}, {name}", f"{search}, {systems[0].name}")
        tokens = options.batch * options.new_tokens / seconds
        rows.append(Row(name, search, parameters[name], 1000 * seconds, tokens, faster))
    return rows


def show(rows: list[Row], options: DecodeBenchmark) -> None:
    what = f"{options.batch} sources of {options.source} tokens, {options.new_tokens} new tokens each"
    how = (
        f"{options.repeats} rounds in turn, {'CPU time of one thread' if options.device == 'cpu' else 'time'}, medians"
    )
    table = Table(box=box.MARKDOWN)
    table.add_column("search")
    table.add_column("system")
    for heading in ("parameters", "ms", "tokens/s", "relformer is"):
        table.add_column(heading, justify="right")
    for row in rows:
        figures = f"{row.parameters:,}", f"{row.milliseconds:.0f}", f"{row.tokens_per_second:.0f}"
        table.add_row(row.search, row.system, *figures, "" if row.system == rows[0].system else f"{row.ours_is:.2f}x")
    console = Console(soft_wrap=True, markup=False)
    console.print(f"{what}, t5 positions, {options.device}: {how}")
    console.print(table)
    if missing := absent():
        left_out = ", ".join(PEERS[name.replace("-", "_")] for name in missing)
        console.print(f"left out: {left_out}; pip install 'relformer[peers]' brings {', '.join(missing)}")


def as_csv(rows: list[Row]) -> str:
    text = io.StringIO()
    names = [field.name for field in fields(Row)]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([getattr(row, name) for name in names] for row in rows)
    return text.getvalue()
