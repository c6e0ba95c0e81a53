"""What a sweep is made of, `sweep.json` in its directory: written before the first job starts, and whenever one starts
or ends."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from relformer.errors import UserError
from relformer.files import write_json
from relformer.redaction import redact
from relformer.sweeps.job import Job, read_job, stored

RECORD = "sweep.json"


class Record:
    """The jobs of the sweep in `home`, with those of earlier commands that had the same directory."""

    def __init__(self, home: Path, jobs: Iterable[Job] = ()) -> None:
        self.home = home
        self.jobs = list(jobs)
        self.earlier = read_record(home)
        for job in self.jobs:
            self.take_over(job)

    def add(self, job: Job) -> None:
        """Another job, as a search finds it."""
        self.jobs.append(job)
        self.take_over(job)
        self.write()

    def take_over(self, job: Job) -> None:
        """A job in the place of an earlier one with its directory; a finished one keeps the seconds that it took."""
        here = job.directory.resolve()
        for each in self.earlier:
            if each.directory.resolve() == here and job.finished:
                job.started, job.seconds = each.started, each.seconds
        self.earlier = [each for each in self.earlier if each.directory.resolve() != here]

    def write(self) -> None:
        jobs = [stored(job, self.home) for job in (*self.earlier, *self.jobs)]
        write_json(self.home / RECORD, {"jobs": redact(jobs)})


def read_record(home: Path) -> list[Job]:
    """The jobs recorded in a sweep's directory; none where no sweep was.

    Raises:
        UserError: the file is not what a sweep writes.
    """
    path = home / RECORD
    if not path.exists():
        return []
    try:
        return [read_job(each, home) for each in json.loads(path.read_text(encoding="utf-8"))["jobs"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is not the record of a sweep ({type(error).__name__}: {error}); remove it") from None


def records_below(folder: Path) -> Sequence[Path]:
    """The directories of sweeps at or below a folder."""
    return sorted(path.parent for path in folder.glob(f"**/{RECORD}"))
