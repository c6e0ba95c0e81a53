"""From a command line to the jobs of a sweep: every combination of its lists, for each line of `sweep.runs`.

All are composed before one is started, so what can't be a run ends the sweep at its beginning.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, ListConfig
from omegaconf.errors import OmegaConfBaseException

from relformer.config import compose, conf_dir, read_overrides, slots_chosen
from relformer.errors import OptionError, UserError
from relformer.sweeps.job import Job, run_key

KEPT = ("sweep.objective=", "sweep.tune_on_test=")
"""What of a sweep's options its jobs are told."""
HYDRA_OF_SWEEP = ("hydra.sweep.", "hydra.sweeper", "hydra/sweeper", "hydra.launcher", "hydra/launcher", "hydra.mode=")


def bare(override: str) -> str:
    return override.lstrip("+~")


def is_hydra(override: str) -> bool:
    return bare(override).startswith(("hydra.", "hydra/"))


def is_swept(override: str) -> bool:
    """Whether an override is of the sweep, and not of its jobs."""
    key = bare(override)
    return key == "sweep" or (key.startswith(("sweep.", "sweep=")) and not key.startswith(KEPT))


def hydra_of_jobs(overrides: Iterable[str]) -> list[str]:
    """What every job is told for Hydra, such as `hydra.searchpath`."""
    return [each for each in overrides if is_hydra(each) and not bare(each).startswith(HYDRA_OF_SWEEP)]


def lines(runs: Any) -> list[list[str]]:
    """The overrides on each line of `sweep.runs`, a list or the path of a file; one empty line where there are none.

    Raises:
        UserError: no such file, no line in it, one that can't be read, or an option of the sweep in one.
    """
    if runs is None:
        return [[]]
    if isinstance(runs, str):
        try:
            found = Path(runs).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"sweep.runs={runs} can't be read ({error}); give a file of lines, or a list") from None
    elif isinstance(runs, ListConfig):
        found = list(map(str, runs))
    else:
        raise OptionError("runs", runs, "is not a list of lines, nor the path of a file of them", "sweep")
    place = f"{runs}:%d" if isinstance(runs, str) else "sweep.runs, line %d"
    split = [overrides_of(line, place % number) for number, line in enumerate(found, 1)]
    if not any(split):
        raise UserError(
            f"sweep.runs={runs} has no line; give a file of them, or a list, each the overrides of a run: "
            '\'sweep.runs=["encoding=t5 encoding.num_buckets=16","encoding=alibi"]\''
        )
    if astray := [each for line in split for each in line if is_swept(each)]:
        raise UserError(f"{astray[0]} in a line of sweep.runs is of the sweep; put it on the command line")
    return [slots_chosen(each) for each in split if each]


def overrides_of(line: str, place: str) -> list[str]:
    """A line's overrides, each one that Hydra can read.

    Raises:
        UserError: where one can't be read.
    """
    try:
        found = words(line)
        read_overrides(found)
    except (ValueError, UserError) as error:
        raise UserError(f"{place}: {error}") from None
    return found


def words(line: str) -> list[str]:
    """A line as a shell reads it: `#` begins a comment where a word would begin, not within one, as shlex has it.

    Raises:
        ValueError: a quotation is not closed.
    """
    stream = StringIO(line)
    lexer = shlex.shlex(stream, posix=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    found: list[str] = []
    while (rest := line[stream.tell() :].lstrip()) and not rest.startswith("#"):
        found.append(str(lexer.get_token()))
    return found


def combined(config: DictConfig, overrides: Sequence[str]) -> list[list[str]]:
    """The overrides of each job, in Hydra's order: an experiment's lists, those of the command line, which win, and
    the line of `sweep.runs`, which wins over both.

    Raises:
        UserError: an override that can't be read, or lists of no end.
    """
    given = [f"{key}={value}" for key, value in (config.hydra.sweeper.params or {}).items()]
    given += [each for each in overrides if not is_hydra(each) and not is_swept(each)]
    found: list[list[str]] = []
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
        for line in lines(config.sweep.runs):
            every = [*given, *line]
            try:
                (jobs,) = BasicSweeper.split_arguments(parser.parse_overrides([*every, *seeds(config, every)]), None)
            except HydraException as error:
                raise UserError(f"{error}; a range without steps is for a search: sweep=optuna") from None
            found += map(slots_chosen, jobs)
    return [job for place, job in enumerate(found) if job not in found[:place]]


def seeds(config: DictConfig, overrides: Iterable[str]) -> list[str]:
    """`sweep.n` seeds from `seed` on."""
    n = config.sweep.n
    if n is None:
        return []
    if n < 1:
        raise OptionError("n", n, "must be at least 1: it is the number of seeds", "sweep")
    first = config.seed
    if given := [each for each in overrides if each.startswith("seed=")]:
        value = given[-1].removeprefix("seed=")
        if not value.removeprefix("-").isdecimal():
            raise UserError(f"{given[-1]} and sweep.n={n} both list seeds; leave out one")
        first = int(value)
    return [f"seed={','.join(str(first + each) for each in range(n))}"]


def planned(overrides: Sequence[str], jobs: Sequence[list[str]], first: int = 0) -> list[Job]:
    """The jobs with their directories, numbered from `first`.

    Raises:
        UserError: one can't be composed, or two have one directory.
    """
    hydra = [each for each in overrides if is_hydra(each)]
    common = set(jobs[0]).intersection(*jobs) if len(jobs) > 1 else set(overrides)
    found, broken = [], []
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        for number, job in enumerate(jobs, first):
            try:
                every = [*hydra, *job, f"hydra.job.num={number}"]
                config = hydra_compose("train", every, return_hydra_config=True)
                found.append(made(number, job, [each for each in job if each not in common], config))
            except (HydraException, OmegaConfBaseException):
                broken.append(job)
    if broken:
        raise UserError(not_composed(overrides, jobs, broken))
    places: dict[Path, Job] = {}
    for each in found:
        if (other := places.setdefault(each.directory, each)) is not each:
            raise UserError(
                f"jobs {other.number} ({other}) and {each.number} ({each}) of the sweep would share the directory "
                f"{each.directory}; leave out one, or tell them apart by hydra.sweep.subdir"
            )
    return found


def made(number: int, overrides: list[str], own: list[str], config: DictConfig) -> Job:
    trainer = config.trainer
    return Job(
        number,
        overrides,
        own,
        Path(config.hydra.sweep.dir).absolute() / config.hydra.sweep.subdir,
        run_key(_root_=config),
        config.sweep.objective,
        trainer.max_steps if trainer.max_epochs is None else None,
        trainer.num_nodes,
        len(trainer.devices) if isinstance(trainer.devices, ListConfig) else trainer.devices,
        trainer.accelerator == "cpu",
    )


def not_composed(overrides: Sequence[str], jobs: Sequence[list[str]], broken: Sequence[list[str]]) -> str:
    """Why a job can't be composed, and the same sweep as a list of runs where there is one."""
    hydra = [each for each in overrides if is_hydra(each)]
    common = set(jobs[0]).intersection(*jobs)
    why = fault_of([*hydra, *broken[0]])
    said = f"a job of the sweep can't be composed: {' '.join(each for each in broken[0] if each not in common)}: {why}"
    kept = {tuple(job): list(mended(hydra, job)) if job in broken else job for job in jobs}
    dropped = {root_of(each) for job in broken for each in job if each not in kept[tuple(job)]}
    told = [" ".join(e for e in kept[tuple(job)] if e not in common and root_of(e) in dropped) for job in jobs]
    if not dropped or not all(told):
        return f"{said}\n  every combination must be a run"
    texts = ",".join('"' + each.replace('"', '\\"') + '"' for each in dict.fromkeys(told))
    rest = [
        each
        for each in overrides
        if root_of(each) not in dropped and not bare(each).startswith(("sweep=", "sweep.runs="))
    ]
    command = shlex.join(["python", "train.py", "sweep=list", f"sweep.runs=[{texts}]", *rest])
    return f"{said}\n  every combination must be a run; list the runs:\n  {command}"


def root_of(override: str) -> str:
    """The part of the configuration that an override is about: `decoder_encoding` of `encoding@decoder_encoding=t5`."""
    return bare(override).partition("=")[0].partition(".")[0].rpartition("@")[2]


def mended(hydra: list[str], job: list[str]) -> Iterator[str]:
    """A job without those of its options that its choices do not have."""
    options = [each for each in job if "." in each.partition("=")[0]]
    for dropped in ([each] for each in options):
        if fault_of([*hydra, *(rest := [each for each in job if each not in dropped])]) is None:
            yield from rest
            return
    with_choices = {root_of(each) for each in job if "." not in each.partition("=")[0]}
    yield from (each for each in job if each not in options or root_of(each) not in with_choices)


def fault_of(overrides: list[str]) -> str | None:
    try:
        compose(overrides)
    except UserError as fault:
        return str(fault)
    return None
