"""`relformer benchmark attention`: what each encoding adds to one attention call, over lengths.

The floor is torch's scaled_dot_product_attention without positions, the ceiling the table of introductory articles. An
encoding's own work of a step is counted in full, though in a model the layers share it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

from matplotlib.figure import Figure

from relformer.benchmark.chosen import Chosen, chosen, left_out, parted
from relformer.benchmark.interleaved import Measured, Spread, taking_turns
from relformer.benchmark.memory import peak
from relformer.benchmark.options import Common, choices, lengths_of, one_thread, parsed, refuse_padding, usable
from relformer.benchmark.output import Column, deliver, number, times
from relformer.benchmark.plot import Line, Panel, draw_lines
from relformer.benchmark.subjects import NAIVE, SDPA, Setting, Subject, acts_on_attention, built, encoded, naive, plain
from relformer.encodings import Role
from relformer.errors import OptionError, UserError

WHAT = ("forward", "backward", "memory")
ROLES: tuple[Role, ...] = get_args(Role)
DIRECTIONS = {"forward": "forward", "backward": "forward+backward"}


@dataclass(frozen=True)
class AttentionBenchmark(Common):
    """The options. `what` lists forward, backward (a training call: both ways) and memory, which is the peak of them.

    `roles` lists encoder, decoder (causal) and cross; `padding` is the share of keys that are padding; `naive` says
    whether the table of introductory articles takes part, where an encoding that has a table does.
    """

    encodings: str = "t5,alibi,rope,shaw"
    lengths: str = "128,512,1024"
    roles: str = "encoder"
    what: str = "forward,backward,memory"
    batch: int = 4
    heads: int = 8
    head_dim: int = 64
    padding: float = 0.0
    naive: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.at_least(1, "batch", "heads", "head_dim")
        if self.head_dim % 2:
            raise OptionError("head_dim", self.head_dim, "must be even: rotary encodings turn pairs of channels")
        refuse_padding(self.padding, self.batch)
        lengths_of(self.lengths)
        choices("what", self.what, WHAT)
        choices("roles", self.roles, ROLES)

    @property
    def directions(self) -> list[str]:
        """Which calls are made; where memory alone is asked for, a training call's."""
        return [each for each in DIRECTIONS if each in choices("what", self.what, WHAT)] or ["backward"]


@dataclass(frozen=True)
class Row:
    """One encoding at one length. Ratios are medians over rounds with quartiles; MB are beyond the inputs."""

    role: str
    length: int
    encoding: str
    direction: str
    milliseconds: float | None
    over_sdpa: Spread | None
    over_naive: Spread | None
    megabytes: float | None
    megabytes_over_sdpa: float | None
    megabytes_over_naive: float | None


def benchmark_attention(arguments: list[str]) -> list[Row]:
    """Measure, print the table, and write the files that `out` and `plot` name.

    Raises:
        UserError: options that are unknown or make no sense, or an encoding that has no place in a role.
    """
    general, own = parted(arguments)
    options = parsed(AttentionBenchmark, general)
    asked = chosen(options.encodings, own)
    device = usable(options.device)
    lengths, notes, rows = lengths_of(options.lengths), list[str](), list[Row]()
    with one_thread():
        for role in [role for role in ROLES if role in choices("roles", options.roles, ROLES)]:
            sizes = (options.batch, options.heads, options.head_dim)
            settings = [Setting(*sizes, length, role, options.padding, device) for length in lengths]
            names = measurable(asked, settings[0], max(lengths), notes)
            for setting in settings:
                rows += at_length(subjects(asked, names, setting, max(lengths), options), setting, options)
    deliver(
        rows, options, title(options), COLUMNS, notes, lambda: drawing(rows), lambda row: f"{row.role}, {row.direction}"
    )
    return rows


def measurable(asked: Chosen, setting: Setting, longest: int, notes: list[str]) -> list[str]:
    """The names that a role can be measured with; what is left out is noted.

    Raises:
        UserError: none is left, or one was named that the role refuses.
    """
    refusing = asked.refusing([setting.role])
    names = [name for name in asked.names if name not in refusing]
    absolute = [
        name
        for name in names
        if name != "none" and not acts_on_attention(built(name, asked.of(name, longest), setting))
    ]
    said = [
        left_out(refusing, f"without a definition in the role {setting.role}"),
        left_out(absolute, "that act before attention and cost it nothing"),
    ]
    if not (kept := [name for name in names if name not in absolute]):
        raise UserError("; ".join(filter(None, said)) + "; no encoding is left to measure")
    notes += [note for note in said if note not in notes]
    return kept


def subjects(
    asked: Chosen, names: list[str], setting: Setting, longest: int, options: AttentionBenchmark
) -> dict[str, Subject]:
    encodings = {name: built(name, asked.of(name, longest), setting) for name in names}
    found = {SDPA: plain(setting)} | {name: encoded(encoding, setting) for name, encoding in encodings.items()}
    if options.naive and any(encoding.acts("table") for encoding in encodings.values()):
        found[NAIVE] = naive(setting)
    return found


def at_length(found: dict[str, Subject], setting: Setting, options: AttentionBenchmark) -> Iterator[Row]:
    print(f"measuring {len(found)} calls, {setting.role}, L={setting.length}", file=sys.stderr)
    what = choices("what", options.what, WHAT)
    runs = {(name, way): getattr(subject, way) for name, subject in found.items() for way in options.directions}
    names = {f"{name}/{way}": run for (name, way), run in runs.items()}
    timed = "forward" in what or "backward" in what
    measured = Measured(
        taking_turns(names, options.repeats, setting.device) if timed else {},
        {name: peak(run, setting.device) for name, run in names.items()} if "memory" in what else {},
    )
    for name, way in runs:
        this, floor, ceiling = (f"{each}/{way}" for each in (name, SDPA, NAIVE))
        yield Row(
            setting.role,
            setting.length,
            name,
            DIRECTIONS[way],
            measured.milliseconds(this),
            measured.slower(this, floor),
            measured.slower(this, ceiling),
            measured.peaks.get(this),
            measured.larger(this, floor),
            measured.larger(this, ceiling),
        )


COLUMNS: list[Column] = [
    ("|length", lambda row: str(row.length)),
    ("encoding", lambda row: row.encoding),
    ("|ms", lambda row: number(row.milliseconds, 1)),
    ("|/ SDPA", lambda row: times(row.over_sdpa)),
    ("|/ naive", lambda row: times(row.over_naive)),
    ("|peak MB", lambda row: number(row.megabytes, 1)),
    ("|MB / SDPA", lambda row: number(row.megabytes_over_sdpa, 2)),
    ("|MB / naive", lambda row: number(row.megabytes_over_naive, 2)),
]


def title(options: AttentionBenchmark) -> str:
    sizes = f"batch {options.batch}, {options.heads} heads of {options.head_dim}"
    padded = f", {options.padding:.0%} padding" if options.padding else ""
    rounds = "" if choices("what", options.what, WHAT) == ["memory"] else f": {options.clock}"
    return (
        f"one attention call, {sizes}{padded}, float32, {options.device}{rounds}\n"
        "with what an encoding makes once a step, which layers share; MB beyond the call's inputs"
    )


def drawing(rows: list[Row]) -> Figure:
    """A panel for each direction and measure, a line for each encoding."""
    panels: list[Panel] = []
    roles = list(dict.fromkeys(row.role for row in rows))
    for role in roles:
        for direction in dict.fromkeys(row.direction for row in rows):
            there = [row for row in rows if (row.role, row.direction) == (role, direction)]
            where = direction if len(roles) == 1 else f"{role}, {direction}"
            if there[0].over_sdpa is not None:
                panels.append(Panel(f"time, {where}", "times SDPA without positions", lines(there, "over_sdpa"), 1.0))
            if there[0].megabytes is not None:
                panels.append(Panel(f"peak memory, {where}", "MB beyond the inputs", lines(there, "megabytes")))
    return draw_lines(panels, "length (queries and keys)")


def lines(rows: list[Row], what: str) -> list[Line]:
    made = []
    for name in dict.fromkeys(row.encoding for row in rows):
        points = {row.length: getattr(row, what) for row in rows if row.encoding == name}
        spreads = [v if isinstance(v, Spread) else Spread(v, v, v) for v in points.values()]
        made.append(Line(name, list(points), spreads))
    return made
