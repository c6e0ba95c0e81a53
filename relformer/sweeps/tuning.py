"""A sweep that tunes first: k learning rates an encoding, chosen on `val_iid`, then fresh seeds at the chosen ones.

    <sweep>/tuning.json     what is to be tried, written before the first run; then the losses and what was chosen
    <sweep>/tuning/         every encoding x every rate x `sweep.tuning_seeds`, as long as the runs that count
    <sweep>/                every encoding at its own rate x `seed`

"Encoding" stands for whatever the sweep varies beside seed and rate: each combination is tuned, at an equal budget.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from omegaconf import DictConfig

from relformer.config import compose
from relformer.errors import OptionError, UserError
from relformer.evaluation.groups import TUNING
from relformer.evaluation.tuned import OBJECTIVE, RECORD, Tuned, read_record, tuning_key
from relformer.files import write_json
from relformer.sweeps.job import FINISHED, objective, run_key
from relformer.sweeps.planning import combined, is_hydra

RATE = "optimizer.lr"
COUNTED = "sweep.n=null"
"""Beside seeds that are listed already."""
SINGLE = "sweep.runs=null"
"""Beside the overrides of one of its lines."""
Swept = Callable[[Sequence[str]], None]
"""Runs a sweep of the command line with more overrides."""


@dataclass(frozen=True)
class Combination:
    """What a sweep makes of its lists but for seed and rate: all overrides, those that tell it from the others, and
    its seeds."""

    overrides: list[str]
    own: list[str]
    seeds: list[int]

    def __str__(self) -> str:
        return " ".join(self.own) or "the model"


def tuned_sweeps(config: DictConfig, overrides: list[str], sweep: Swept) -> list[list[str]]:
    """Tune, write down what was chosen, and return the overrides of the sweeps that remain, one a combination.

    Raises:
        UserError: a plan that would not be fair, a job that failed, or no rate with which training converges.
    """
    rates, seeds = planned(config, overrides)
    found = combinations(config, overrides)
    for each in found:
        if both := sorted(set(each.seeds) & set(seeds)):
            rule = (
                f"has seeds of the runs that count ({', '.join(map(str, both))}); choose others: fresh seeds are tested"
            )
            raise OptionError("tuning_seeds", seeds, rule, "sweep")
    keys = [job_keys(each, overrides, rates, seeds) for each in found]
    directory = Path(config.hydra.sweep.dir)
    plans = [Tuned(each.overrides, rates, seeds, []) for each in found]
    write_record(directory, plans)
    print(f"tuning      {len(found)} x {RATE}={listed(rates)} x seed={listed(seeds)}, by {OBJECTIVE}")
    sweep([f"{RATE}={listed(rates)}", f"seed={listed(seeds)}", COUNTED, f'hydra.sweep.dir="{directory / TUNING}"'])
    runs = {path.read_text(encoding="utf-8").strip(): path.parent for path in directory.glob(f"{TUNING}/**/{FINISHED}")}
    done = [chosen(plan, mine, runs, str(each)) for plan, mine, each in zip(plans, keys, found, strict=True)]
    write_record(directory, done)
    for each, result in zip(found, done, strict=True):
        means = ", ".join(f"{rate:g}: {mean:.4f}" for rate, mean in zip(rates, result.means, strict=True))
        print(f"chosen      {each}   {RATE}={result.chosen:g}   ({OBJECTIVE} {means})")
    print(f"written     {directory / RECORD}")
    return [
        [*each.own, f"{RATE}={result.chosen!r}", f"seed={listed(each.seeds)}", COUNTED, SINGLE]
        for each, result in zip(found, done, strict=True)
    ]


def planned(config: DictConfig, overrides: list[str]) -> tuple[list[float], list[int]]:
    """The learning rates and the seeds to try them with."""
    rates, seeds = list(config.sweep.learning_rates), list(config.sweep.tuning_seeds or [])
    if len(set(rates)) < max(2, len(rates)) or not all(0 < rate < math.inf for rate in rates):
        raise OptionError("learning_rates", rates, "is not a list of two or more different positive numbers", "sweep")
    if not seeds or len(set(seeds)) < len(seeds):
        rule = "is not a list of different seeds to tune with, such as [1000,1001]"
        raise OptionError("tuning_seeds", seeds, rule, "sweep")
    if config.sweep.objective != OBJECTIVE:
        rule = f"can't choose learning rates: they are chosen by {OBJECTIVE}"
        raise OptionError("objective", config.sweep.objective, rule, "sweep")
    if "lr" not in config.optimizer:
        raise UserError(f"optimizer {config.optimizer.get('_target_')} has no option lr to tune")
    params = [f"{key}={value}" for key, value in (config.hydra.sweeper.params or {}).items()]
    if given := [each for each in (*params, *overrides) if each.lstrip("+~").startswith(f"{RATE}=")]:
        raise UserError(f"{given[0]} and sweep.learning_rates both set the learning rate; leave out one")
    return sorted(rates), sorted(seeds)


def combinations(config: DictConfig, overrides: list[str]) -> list[Combination]:
    """Of the lists on the command line and of the experiment, as Hydra makes them, in its order."""
    found: dict[tuple[str, ...], list[int]] = {}
    for job in combined(config, overrides):
        seed = next((each.removeprefix("seed=") for each in job if each.startswith("seed=")), str(config.seed))
        if not seed.removeprefix("-").isdecimal():
            raise UserError(f"seed: {seed!r} is not an integer")
        rest = tuple(each for each in job if not each.startswith("seed="))
        found.setdefault(rest, []).append(int(seed))
    common = set.intersection(*map(set, found))
    return [Combination(list(all_), [e for e in all_ if e not in common], seeds) for all_, seeds in found.items()]


def job_keys(combination: Combination, overrides: list[str], rates: list[float], seeds: list[int]) -> list[list[str]]:
    """The keys of its runs, by rate and seed. Composes it: what can't be is refused before anything is run."""
    config = compose([*filter(is_hydra, overrides), *combination.overrides])
    found: list[list[str]] = []
    for rate in rates:
        config.optimizer.lr = rate
        found.append([])
        for seed in seeds:
            config.seed = seed
            found[-1].append(run_key(_root_=config))
    return found


def chosen(plan: Tuned, keys: list[list[str]], runs: dict[str, Path], name: str) -> Tuned:
    """The plan with its losses and the rate of the least, the smaller one where two are equal.

    Raises:
        UserError: a run is not there, or no rate has a finite loss for every seed.
    """
    if missing := [key for row in keys for key in row if key not in runs]:
        raise UserError(
            f"{len(missing)} runs that tune {name} did not finish; repeat the command, which skips the others"
        )
    losses = [[objective(runs[key], OBJECTIVE) for key in row] for row in keys]
    done = replace(plan, losses=[[each if math.isfinite(each) else None for each in row] for row in losses])
    best = min(range(len(plan.rates)), key=lambda place: done.means[place])
    if not math.isfinite(done.means[best]):
        raise UserError(f"no learning rate of {listed(plan.rates)} trains {name} for every seed; try smaller ones")
    config = json.loads((runs[keys[best][0]] / "metrics.json").read_text(encoding="utf-8"))["config"]
    return replace(done, chosen=plan.rates[best], key=tuning_key(config))


def write_record(directory: Path, new: list[Tuned]) -> None:
    """Add to the folder's record. A plan gives way to its result, a result to its repetition; all else stays."""
    kept = [old for old in read_record(directory / RECORD) if not any(replaces(each, old) for each in new)]
    write_json(directory / RECORD, {"objective": OBJECTIVE, "groups": [asdict(each) for each in (*kept, *new)]})


def replaces(new: Tuned, old: Tuned) -> bool:
    same = new.key == old.key if old.key else new.overrides == old.overrides
    return same and (new.rates, new.seeds) == (old.rates, old.seeds)


def listed(values: Sequence[float]) -> str:
    return ",".join(map(repr, values))
