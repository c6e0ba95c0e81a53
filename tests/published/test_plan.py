"""`published.txt`: a sweep whose jobs are rows of the tables, each with its seeds."""

from omegaconf import OmegaConf

from relformer.config import conf_dir
from relformer.published.tables import published_tables
from relformer.sweeps.job import run_key
from relformer.sweeps.planning import combined, planned
from tests.config.composed import composed

PLAN = conf_dir() / "experiment" / "published.txt"


def test_its_jobs_are_rows_of_the_tables() -> None:
    jobs = combined(composed(f"sweep.runs={PLAN}"), [])
    assert len(jobs) == 7 * 5 + 3 * 3 + 2 * 4 * 5 + 5
    rows = {(f"experiment={row.experiment}", *row.overrides) for table in published_tables() for row in table.rows}
    seeds: dict[tuple[str, ...], list[str]] = {}
    for *row, seed in jobs:
        seeds.setdefault(tuple(each.replace("=True", "=true").replace("=False", "=false") for each in row), []).append(
            seed
        )
    assert seeds.keys() <= rows
    assert {tuple(each) for each in seeds.values()} == {tuple(f"seed={n}" for n in range(many)) for many in (1, 3, 5)}


def test_a_job_lies_where_its_presets_sweep_looks_for_it() -> None:
    OmegaConf.register_new_resolver("run_key", run_key, replace=True)
    row = published_tables()[0].rows[1]
    job = [f"experiment={row.experiment}", *row.overrides, "seed=2"]
    (of_plan,) = planned([], [job])
    (of_preset,) = planned(["experiment=ontanon2022_reverse"], [["seed=2", *reversed(row.overrides), job[0]]])
    assert of_plan.directory == of_preset.directory and of_plan.key == of_preset.key
    assert of_plan.directory.parent.name == "reverse" and of_plan.key in of_plan.directory.name
