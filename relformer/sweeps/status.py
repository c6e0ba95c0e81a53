"""`relformer sweep status`: what has become of each job, from the files that a sweep and its runs leave."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from relformer.errors import UserError
from relformer.report.reading import LOG, read_metrics, read_run
from relformer.sweeps.job import Job
from relformer.sweeps.record import read_record, records_below
from relformer.training.lock import is_held

COLUMNS = ("job", "overrides", "state", "step", "objective", "seconds", "directory")


def sweep_command(arguments: list[str]) -> None:
    """`relformer sweep status DIR`.

    Raises:
        UserError: no such command, or no sweep there.
    """
    if len(arguments) != 2 or arguments[0] != "status":
        raise UserError("sweep has one command: relformer sweep status runs/multirun/STAMP")
    print_status(Path(arguments[1]))


def print_status(folder: Path) -> None:
    """A table for each sweep at or below a folder."""
    if not (homes := records_below(folder)):
        raise UserError(f"no sweep in {folder.resolve()}: nothing below it has a sweep.json")
    for home in homes:
        jobs, running = read_record(home), is_held(home)
        states = [job.state(running, is_held(job.directory)) for job in jobs]
        table = Table(title=f"{home}, {counted(states)}", title_justify="left")
        for column in COLUMNS:
            table.add_column(column, overflow="fold")
        for job, state in zip(jobs, states, strict=True):
            table.add_row(*row(job, state))
        Console(width=None if Console().is_terminal else 200).print(table)


def counted(states: list[str]) -> str:
    """`2 finished, 1 killed`, in the order met."""
    kinds = [state.split(" ")[0] for state in states]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))


def row(job: Job, state: str) -> tuple[str, ...]:
    seconds = time.time() - job.started if state == "running" and job.started is not None else job.seconds
    value = job.value() if state == "finished" else None
    return (
        str(job.number),
        str(job),
        state,
        steps(job),
        "" if value is None else f"{job.objective} {value:.4f}",
        "" if seconds is None else f"{seconds:.0f}",
        str(job.directory),
    )


def steps(job: Job) -> str:
    """How far the run is, and how far it goes where that is known."""
    metrics = read_metrics(job.directory / "metrics.json")
    if metrics is not None:
        done = metrics["checkpoints"]["last"]["step"]
    else:
        done = read_run(job.directory).step if (job.directory / LOG).exists() else 0
    return f"{done} of {job.max_steps}" if job.max_steps is not None else str(done)
