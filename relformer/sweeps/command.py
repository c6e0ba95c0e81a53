"""A sweep from its configuration to its comparison."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from relformer.check import sweep_faults
from relformer.config import compose
from relformer.errors import OptionError, RunError, UserError
from relformer.evaluation.compare import compare_runs
from relformer.evaluation.groups import runs_below
from relformer.sweeps.cluster import submit
from relformer.sweeps.job import IN_JOB, Job, fault, success
from relformer.sweeps.planning import combined, hydra_of_jobs, planned
from relformer.sweeps.pool import Handle, Process, run_all
from relformer.sweeps.record import Record
from relformer.sweeps.search import Search
from relformer.sweeps.sharing import Share
from relformer.sweeps.tuning import tuned_sweeps
from relformer.training.disk import made_writable
from relformer.training.lock import RunLock, refuse_running
from relformer.training.resume import TRACES
from relformer.training.signals import Interrupted, signals

RANK_VARIABLES = (
    *("LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "RANK", "PL_GLOBAL_SEED"),
    *("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"),
)
"""In an environment they make a process one of several. A shell in an allocation of SLURM has its own, too, and a job's
ranks would wait for tasks that nobody starts."""
CLUSTERS = ("slurm", "local")
PLAIN = ("BasicSweeper", "BasicLauncher")


def run_sweep(config: DictConfig, flags: Sequence[str], overrides: Sequence[str]) -> None:
    """Run the jobs of a command line, and compare those that finished.

    Args:
        config: the configuration without the lists.
        flags: those of the command line that its jobs are told.

    Raises:
        UserError: something wrong with the sweep itself; nothing was run.
        RunError: jobs failed, and have said why.
        Interrupted: a signal ended it, and its jobs.
    """
    refuse(config)
    if [os.environ.pop(name) for name in RANK_VARIABLES if name in os.environ]:
        config = compose(list(overrides))
    if config.sweep.trials is not None:
        search(config, flags, overrides)
        return
    sweep = Sweep(config, flags, overrides)
    if config.sweep.learning_rates is not None:
        chosen = tuned_sweeps(config, list(overrides), sweep.stage)
        lists = [job for more in chosen for job in combined(compose([*overrides, *more]), [*overrides, *more])]
    else:
        lists = combined(config, overrides)
    jobs = planned(overrides, lists)
    try:
        sweep.run(jobs)
    finally:
        summarise(jobs, sweep.home)
    raise_failed(jobs)


def search(config: DictConfig, flags: Sequence[str], overrides: Sequence[str]) -> None:
    """A study goes on when a trial fails, and has failed where none is left."""
    sweep = Sweep(config, flags, overrides)
    record = Record(sweep.home)
    study = Search(config, overrides, record)
    try:
        sweep.run(study.jobs(), record, study)
    finally:
        for job in filter(lambda each: each.failed, record.jobs):
            print(fault(job))
        if (best := study.best()) is not None:
            print(f"best        trial {best.number}   {best}   {best.objective} {best.value():.4f}   {best.directory}")
            print(f"trials      relformer sweep status {shlex.quote(str(sweep.home))}")
    if best is None:
        raise_failed(record.jobs)
        raise RunError(f"no trial of {sweep.home} has a finite {config.sweep.objective}")


class Sweep:
    """Starts jobs: each an ordinary process with a run directory of its own, so that no state of one can leak into the
    next.

    Measured without this, at two devices: Optuna gave each rank its own hyper-parameters, silently; jobs shared one W&B
    run; one failing job killed the sweep.
    """

    def __init__(self, config: DictConfig, flags: Sequence[str], overrides: Sequence[str]) -> None:
        self.config, self.flags, self.overrides = config, list(flags), list(overrides)
        self.home = Path(config.hydra.sweep.dir)
        self.options = config.sweep
        self.grouped = config.logger.get("name") != "wandb" or any(o.startswith("logger.group=") for o in overrides)
        self.share = Share(self.options.at_once, config)

    def stage(self, more: Sequence[str]) -> None:
        """A sweep of the same command line with more overrides, which win."""
        overrides = [*self.overrides, *more]
        inner = Sweep(compose(overrides), self.flags, overrides)
        jobs = planned(overrides, combined(inner.config, overrides))
        inner.run(jobs)
        raise_failed(jobs)

    def run(self, jobs: Any, record: Record | None = None, study: Search | None = None) -> None:
        record = record or Record(self.home, jobs)
        refuse_running(self.home)
        made_writable(self.home)
        lock = RunLock(self.home)

        def changed(job: Job) -> None:
            if job.failed:
                print(fault(job), "" if signals.received else "(the others go on)", flush=True)
            elif job.log is not None and job.exit_code == 0:
                print(success(job), flush=True)
            if study is not None:
                study.changed(job)
            record.write()

        try:
            record.write()
            run_all(iter(jobs), self.options.at_once, self.start, changed)
        except Interrupted:
            print(f"the sweep was interrupted; go on with the same command and   hydra.sweep.dir={self.home}")
            raise
        finally:
            lock.release()

    def start(self, job: Job, place: int) -> Handle:
        environment = {IN_JOB: "1", **self.share.variables(place, job)}
        if self.options.cluster is not None:
            options = OmegaConf.to_container(self.options.submit) if self.options.submit else None
            return submit(job, self.command(job), environment, self.options.cluster, options)
        if self.options.at_once > 1:
            job.log = self.home / "logs" / f"{job.number}.log"
            print(f"job {job.number}   {job}   {job.log}", flush=True)
        return Process(self.command(job), {**os.environ, **environment}, job.log)

    def command(self, job: Job) -> list[str]:
        """What runs a job alone: also to be copied."""
        more = [] if self.grouped else [f'logger.group="{"/".join(self.home.parts[-2:])}"']
        begun = any((job.directory / trace).exists() for trace in TRACES)
        if self.config.resume is None and (begun or self.options.cluster is not None):
            more.append("resume=auto")
        return [
            sys.executable,
            *(["-m", "relformer"] if sys.argv[0].endswith("__main__.py") else [sys.argv[0]]),
            *self.flags,
            *hydra_of_jobs(self.overrides),
            *job.overrides,
            *more,
            f'hydra.run.dir="{job.directory}"',
            "hydra.mode=RUN",
        ]


def refuse(config: DictConfig) -> None:
    """Raises UserError where a sweep can't be as it is told."""
    if IN_JOB in os.environ:
        raise UserError("a job of a sweep can't start a sweep")
    if "TORCHELASTIC_RUN_ID" in os.environ:
        raise UserError("a sweep starts its own processes and can't run under torchrun; run python train.py -m ...")
    if int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1:  # of srun alone; SLURM_NTASKS is a batch script's as well
        raise UserError("a sweep starts its own processes and can't run in several tasks of srun; use sweep=slurm")
    for fault_found in sweep_faults(config):
        raise fault_found
    for node, instead in ((config.hydra.sweeper, "sweep=optuna"), (config.hydra.launcher, "sweep=joblib or slurm")):
        if not node._target_.endswith(PLAIN):
            raise UserError(f"{node._target_} is not used here; choose {instead}")
    sweep = config.sweep
    if sweep.at_once < 1:
        raise OptionError(
            "at_once", sweep.at_once, "must be at least 1: it is the number of jobs side by side", "sweep"
        )
    if sweep.cluster not in (None, *CLUSTERS):
        raise OptionError("cluster", sweep.cluster, f"is not one of {', '.join(CLUSTERS)}", "sweep")
    if sweep.trials is not None and sweep.n is not None:
        raise UserError(
            f"sweep.trials={sweep.trials} and sweep.n={sweep.n}: a search has one seed a trial; leave out one"
        )


def raise_failed(jobs: Sequence[Job]) -> None:
    """Raises RunError with a line a failed job."""
    if failed := [job for job in jobs if job.failed]:
        raise RunError("\nerror: ".join(map(fault, failed)))


def summarise(jobs: Sequence[Job], home: Path) -> None:
    """At the end of a sweep, failed jobs or not: its finished runs side by side, grouped over seeds."""
    places = [job.directory for job in jobs if job.finished]
    if any(map(runs_below, places)):
        compare_runs(map(str, places))
        print(f"again: relformer compare {shlex.quote(str(home))}")
