"""A search by Optuna: one study in the sweep's own process, whose trials are ordinary jobs of the sweep.

What is searched is told by the lists of the command line: `encoding=t5,alibi` is a choice,
`model.width=range(32,129,32)` steps, `optimizer.lr=interval(1e-4,1e-2)` a range and
`optimizer.lr=tag(log,interval(1e-4,1e-2))` one in logarithms. With `sweep.runs` each line is a choice as well.

The study is told again from `sweep.json` what was tried before, and the sampler of a trial is seeded by the trial's
number: a search that goes on proposes what it would have.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override, RangeSweep
from omegaconf import DictConfig

from relformer.config import conf_dir, read_overrides, slots_chosen
from relformer.errors import OptionError, UserError
from relformer.evaluation.summary import falls
from relformer.sweeps.job import Job
from relformer.sweeps.planning import fault_of, is_hydra, is_swept, lines, planned
from relformer.sweeps.record import Record

LINE = "sweep.runs"
"""The name of the choice among the lines."""


class Search:
    """One study. `jobs` asks it for the next trial, `changed` tells it how one ended.

    Raises:
        UserError: Optuna is missing, or there is nothing to search.
    """

    def __init__(self, config: DictConfig, overrides: Sequence[str], record: Record) -> None:
        try:
            import optuna
        except ModuleNotFoundError:
            raise UserError("sweep=optuna needs a package that is missing: pip install 'relformer[optuna]'") from None
        if config.sweep.trials < 1:
            raise OptionError("trials", config.sweep.trials, "must be at least 1", "sweep")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.optuna, self.overrides, self.record = optuna, overrides, record
        self.trials, self.seed = config.sweep.trials, config.sweep.search_seed
        self.fixed, self.space, self.lines = space(config, overrides)
        if not self.space:
            raise UserError(
                "sweep=optuna has nothing to search; give lists or ranges, such as "
                "'optimizer.lr=tag(log,interval(1e-4,1e-2))' encoding=t5,alibi"
            )
        self.falls = falls(config.sweep.objective)
        self.study = optuna.create_study(direction="minimize" if self.falls else "maximize")
        self.check()
        self.asked: dict[int, Any] = {}
        self.before = [job for job in record.earlier if job.parameters]
        for job in self.before:
            self.refuse_other_space(job, job.parameters or {})
            self.study.enqueue_trial(job.parameters or {})

    def refuse_other_space(self, job: Job, tried: dict[str, Any]) -> None:
        """Raises UserError where a trial of this directory was about other options, or chose what is no choice now."""
        what = sorted(set(tried) ^ set(self.space))
        what += [
            f"{key}={value}" for key, value in tried.items() if key in self.space and not holds(self.space[key], value)
        ]
        if not what and job.own != self.own(tried):
            what = [LINE]
        if what:
            raise UserError(
                f"{self.record.home} holds a search of another space (apart in {', '.join(what)}); repeat its command "
                "to go on, with more choices at most, or choose another hydra.sweep.dir"
            )

    def check(self) -> None:
        """Each range can be searched, and each choice composed, beside the first of the others."""
        for line in self.lines:
            if several := [each.input_line for each in read_overrides(line) if each.is_sweep_override()]:
                raise UserError(f"{several[0]} in a line of sweep.runs lists several values; write a line for each")
        trial = self.optuna.create_study().ask()
        for name, of in self.space.items():
            try:
                suggested(trial, name, of)
            except ValueError as error:
                raise UserError(f"{of.input_line} can't be searched: {error}") from None
        first = {name: each[0] if isinstance(each, list) else each.value().start for name, each in self.space.items()}
        lists = {name: each for name, each in self.space.items() if isinstance(each, list)}
        hydra = [each for each in self.overrides if is_hydra(each)]
        for values in [first, *({**first, name: value} for name, each in lists.items() for value in each[1:])]:
            own = self.own(values)
            if why := fault_of([*hydra, *self.around(own), *own]):
                raise UserError(
                    f"a trial can't be composed: {' '.join(own)}: {why}\n  what only one choice has goes into its "
                    'line, beside the lists: \'sweep.runs=["encoding=t5 encoding.num_buckets=16","encoding=alibi"]\''
                )

    def jobs(self) -> Iterator[Job]:
        """The trials, those of an interrupted search first; each is proposed when there is room for it."""
        for number in range(max(self.trials, len(self.before))):
            job = self.proposed(number)
            self.record.add(job)
            yield job

    def proposed(self, number: int) -> Job:
        self.study.sampler = self.optuna.samplers.TPESampler(seed=self.seed + number, constant_liar=True)
        trial = self.study.ask()
        job = self.job(number, {name: suggested(trial, name, each) for name, each in self.space.items()})
        self.asked[number] = trial
        return job

    def job(self, number: int, values: dict[str, Any]) -> Job:
        own = self.own(values)
        hydra = [each for each in self.overrides if is_hydra(each)]
        (job,) = planned(hydra, [[*self.around(own), *own]], first=number)
        job.own, job.parameters = own, values
        return job

    def own(self, values: dict[str, Any]) -> list[str]:
        """The overrides of proposed values."""
        line = self.lines[values[LINE]] if LINE in values else []
        return slots_chosen([*(f"{name}={value}" for name, value in values.items() if name != LINE), *line])

    def around(self, own: list[str]) -> list[str]:
        """Those of every trial that a line does not take back."""
        names = {each.partition("=")[0] for each in own}
        return [each for each in self.fixed if each.partition("=")[0] not in names]

    def changed(self, job: Job) -> None:
        """Tell the study of a trial that ended: its objective, or that it failed."""
        if job.exit_code is None:
            return
        value, trial = job.value(), self.asked.pop(job.number)
        if value is None or not math.isfinite(value):
            self.study.tell(trial, state=self.optuna.trial.TrialState.FAIL)
            return
        self.study.tell(trial, value)
        best = self.study.best_trial
        print(
            f"trial {job.number}   {job}   {job.objective} {value:.4f}   (best: trial {best.number}, {best.value:.4f})"
        )

    def best(self) -> Job | None:
        """The trial with the best objective; None where all failed."""
        done = [job for job in self.record.jobs if (value := job.value()) is not None and math.isfinite(value)]
        sign = 1 if self.falls else -1
        return min(done, key=lambda job: sign * (job.value() or 0.0), default=None)


def space(config: DictConfig, overrides: Sequence[str]) -> tuple[list[str], dict[str, Any], list[list[str]]]:
    """The overrides of every trial, what is searched by key, and the lines of `sweep.runs`."""
    given = [f"{key}={value}" for key, value in (config.hydra.sweeper.params or {}).items()]
    given += [each for each in overrides if not is_hydra(each) and not is_swept(each)]
    fixed: dict[str, str] = {}
    found: dict[str, Any] = {}
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
        for override in parser.parse_overrides(given):
            key = override.get_key_element()
            found.pop(key, None), fixed.pop(key, None)
            if not override.is_sweep_override():
                fixed[key] = f"{key}={override.get_value_element_as_str()}"
            elif isinstance(override.value(), IntervalSweep | RangeSweep):
                found[key] = override
            else:
                found[key] = list(override.sweep_string_iterator())
    choices = lines(config.sweep.runs)
    if config.sweep.runs is not None:
        found[LINE] = list(range(len(choices)))
    return list(fixed.values()), found, choices


def holds(of: Override | list[Any], value: Any) -> bool:
    """Whether a value is one of those that are searched."""
    if isinstance(of, list):
        return value in of
    sweep: Any = of.value()
    if not isinstance(value, int | float):
        return False
    if hasattr(sweep, "step"):
        return any(math.isclose(value, each) for each in sweep.range())
    return bool(sweep.start <= value <= sweep.end)


def suggested(trial: Any, name: str, of: Override | list[Any]) -> Any:
    """Optuna's proposal for one key: ends included, but for the upper one of Hydra's `range`."""
    if isinstance(of, list):
        return trial.suggest_categorical(name, of)
    sweep: Any = of.value()
    if hasattr(sweep, "step"):
        whole = all(float(each).is_integer() for each in (sweep.start, sweep.stop, sweep.step))
        if not (values := [float(each) for each in sweep.range()]):
            raise ValueError("it has no values")
        if whole:
            return trial.suggest_int(name, int(values[0]), int(values[-1]), step=int(sweep.step))
        return trial.suggest_float(name, values[0], values[-1], step=float(sweep.step))
    log = "log" in (sweep.tags or ())
    if "int" in (sweep.tags or ()) or (type(sweep.start) is int and type(sweep.end) is int):
        return trial.suggest_int(name, int(sweep.start), int(sweep.end), log=log)
    return trial.suggest_float(name, float(sweep.start), float(sweep.end), log=log)
