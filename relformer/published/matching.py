"""Which finished runs are a row's: those that its command would make, to the end."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from relformer.config import SLOTS, compose, slots_chosen
from relformer.evaluation.groups import Group, flatten
from relformer.published.rows import Row
from relformer.training.resume import run_parts

ELSEWHERE = (
    *("seed", "data.path", "data.workers", "data.eval_batch_size", "attention."),
    *("eval.every", "eval.generate"),
)
"""Parts of a run's configuration that change no weight and no figure of a checkpoint, and the seed."""
SEARCH = ("decoding.",)
"""Changes text, and no exact match."""
FOUND = ("trained_length", "length_side", "changes")
"""What a run says of itself beside its configuration."""
NAMED = 3
"""Of the options that keep a run from a row, so many are named."""
Parts = Mapping[str, Any]


def group_of(row: Row, groups: Iterable[Group]) -> Group:
    """The runs of a row, whatever their seeds. Of two with one seed the newer counts; that, and which runs are of the
    row and do not count, is said on stderr."""
    found = Group({}, {})
    for group in groups:
        if differences(row, group.config):
            continue
        found = Group(group.config, found.runs, found.paths)
        for seed, run in group.runs.items():
            path, other = group.paths[seed], found.paths.get(seed)
            if why := fault(row, group, seed):
                say(f"{path} is left out of the row {row.name!r} of {row.experiment}: {why}")
                continue
            if other is not None:
                path = max(path, other, key=lambda each: each.stat().st_mtime)
                say(f"the row {row.name!r} of {row.experiment} has two runs of seed {seed}; {path} counts")
            if path != other:
                found.runs[seed], found.paths[seed] = run, path
    return found


def fault(row: Row, group: Group, seed: int) -> str | None:
    """Why a run of these options is not what the row's command would make."""
    run, planned = group.runs[seed], group.config["max_steps"]
    done = run["checkpoints"].get("last", {}).get("step", planned)
    if run.get("tuned_on_test"):
        return "its options were chosen on a test set"
    if done < planned:
        return f"it stopped at step {done:,} of {planned:,}"
    for change in group.config.get("changes", []):
        if counts := [key for key in change["options"] if not key.startswith((*ELSEWHERE, *SEARCH, "eval."))]:
            return f"it was trained with other options until step {change['step']:,} ({', '.join(sorted(counts))})"
    if seed not in group.by_seed(row.set, row.figure):
        return f"it has no {row.figure} on {row.set}"
    return None


def differences(row: Row, config: Mapping[str, Any]) -> list[str]:
    """The options in which a run is not as the row's command makes it. One that is older than an option has its
    default."""
    wanted, stored = wanted_of(row), described(config, (*ignored(row), *FOUND))
    apart = [key for key, value in wanted.items() if key in stored and stored[key] != value]
    apart += [key for key in stored if key not in wanted]
    newer = {key: value for key, value in wanted.items() if key not in stored}
    if newer and not apart:
        usual = defaults(tuple(chosen(wanted)))
        apart = [key for key, value in newer.items() if key.endswith(".name") or usual.get(key, ...) != value]
    return apart


def ignored(row: Row) -> tuple[str, ...]:
    return ELSEWHERE if row.of_text else (*ELSEWHERE, *SEARCH)


def wanted_of(row: Row) -> Parts:
    return described(composed(row.experiment, row.overrides), ignored(row))


@cache
def composed(experiment: str, overrides: tuple[str, ...]) -> Parts:
    """What a run of a row stores of its configuration."""
    config = compose(slots_chosen([f"experiment={experiment}", *overrides]))
    return run_parts(config) | {"max_steps": config.trainer.max_steps}


def described(parts: Mapping[str, Any], without: tuple[str, ...]) -> dict[str, Any]:
    """What decides a run's result, by dotted key."""
    return {key: value for key, value in flatten(parts) if not key.startswith(without)}


def chosen(wanted: Parts) -> Iterator[str]:
    """The choice of data and of encodings."""
    yield from (f"{group}={wanted[f'{group}.name']}" for group in ("data", *SLOTS) if f"{group}.name" in wanted)


@cache
def defaults(choices: tuple[str, ...]) -> dict[str, Any]:
    """What a run with these data and encodings is where nothing else is said."""
    return dict(flatten(run_parts(compose(slots_chosen(list(choices))))))


def say_unused(rows: Sequence[Row], groups: Iterable[Group]) -> None:
    """Name on stderr the runs that are of no row, with the row that is nearest."""
    for group in groups:
        apart, row = min(((differences(row, group.config), row) for row in rows), key=lambda pair: len(pair[0]))
        if apart:
            wanted, stored = wanted_of(row), dict(flatten(group.config))
            said = [f"{key} is {stored.get(key, 'not there')}, not {wanted.get(key, 'there')}" for key in apart[:NAMED]]
            said += [f"{len(apart) - NAMED} more"] if len(apart) > NAMED else []
            paths = ", ".join(map(str, group.paths.values()))
            say(f"{paths}: of no row; nearest is {row.name!r} of {row.experiment}, but {'; '.join(said)}")


def say(text: str) -> None:
    print(text, file=sys.stderr)
