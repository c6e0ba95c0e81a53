"""`relformer report`: a page a run and an index, each one file that needs no network."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from relformer.errors import UserError
from relformer.evaluation.report import LEARNED, unlearned
from relformer.evaluation.scores import PERCENT
from relformer.evaluation.tables import spoken
from relformer.figures.chart_svg import chart_svg
from relformer.files import write_text
from relformer.report.curves import learning_charts, length_chart, reach_charts
from relformer.report.pictures import sentences, slot_maps, term_maps
from relformer.report.reading import Run, differences, find_runs, labels, read_run
from relformer.training.callbacks.head_figures import read_rows
from relformer.training.callbacks.receptive_field import field_chart

PAGE = "report.html"
SCORES = (*PERCENT, "exact_match", "exact_match_oracle_eos", "correct_prefix", "loss")


def report(path: Path) -> Path:
    """Write the page of the run at `path`; of a folder, a page for every run below and an index. The page's path.

    Raises:
        UserError: no run there.
    """
    if not path.is_dir():
        raise UserError(f"{path.resolve()} is not a folder; name a run's directory or a folder of runs")
    runs = find_runs(path)
    if runs[0].directory == path:
        return write_run(runs[0])
    for run in runs:
        write_run(run)
    return write_index(runs, path)


def report_run(directory: Path) -> Path:
    """The page of a run that has just ended."""
    return write_run(read_run(directory))


def write_run(run: Run) -> Path:
    content = {"title": run.name, "run": described(run, run.name), "settings": sorted(run.settings.items())}
    return write(run.directory / PAGE, "run.html", content)


def write_index(runs: Sequence[Run], folder: Path) -> Path:
    names, apart = labels(list(runs)), differences(list(runs))
    scores = sorted({(name, key) for run in runs for name, key, _ in scored(run)})
    rows = []
    for run, name in zip(runs, names, strict=True):
        found = {(test, key): value for test, key, value in scored(run)}
        rows.append(
            {
                "name": name,
                "page": os.path.relpath(run.directory / PAGE, folder),
                "state": run.state,
                "settings": [run.settings.get(key) for key in apart],
                "scores": [found.get(score) for score in scores],
                "cost": cost(run),
                "warning": warning(run),
            }
        )
    content = {
        "title": f"{len(runs)} runs in {folder.resolve().name}",
        "columns": [*apart, *(f"{test}, {spoken(key)}" for test, key in scores)],
        "rows": rows,
        "reach": reach_charts(runs),
        "learning": learning_charts(runs, names),
        "runs": [described(run, name) for run, name in zip(runs, names, strict=True)],
    }
    return write(folder / PAGE, "index.html", content)


def scored(run: Run) -> list[tuple[str, str, float]]:
    """Test set, figure and value; of an unfinished run those of its validation sets."""
    wanted = "test_" if run.metrics is not None else "val_"
    return [
        (name, key, float(figures[key]))
        for name, figures in run.headline.items()
        if name.startswith(wanted)
        for key in SCORES
        if key in figures
    ]


def cost(run: Run) -> dict[str, Any]:
    """As `metrics.json` has it; None for what is not known yet."""
    names = ("parameters", "position_parameters", "seconds_per_step")
    return dict.fromkeys(names) | ((run.metrics or {}).get("cost") or {})


def warning(run: Run) -> str | None:
    """Where the run has not learned its own distribution, and is tested beyond it."""
    found = run.headline.get("test_iid")
    if run.metrics is None or found is None:
        return None
    weak = unlearned([found["exact_match"]], run.headline, run.metrics["config"].get("data", {}))
    return (
        f"in-distribution exact match {weak[0]:.3f} < {LEARNED}: beyond-length results mean nothing" if weak else None
    )


def described(run: Run, name: str) -> dict[str, Any]:
    """All that a panel shows of a run."""
    heads = read_rows(run.directory / "heads.csv")
    last = max((int(row["step"]) for row in heads), default=0)
    field = run.directory / "profiles" / "receptive_field.json"
    charts = [length_chart(run)]
    if run.metrics is not None:
        charts += [length_chart(run, "correct_prefix"), length_chart(run, "loss")]
    maps = slot_maps(run)
    return {
        "name": name,
        "directory": str(run.directory),
        "state": run.state,
        "warning": warning(run),
        "scores": scored(run),
        "cost": cost(run),
        "learning": learning_charts([run], [name]),
        "length": charts,
        "maps": maps,
        "steps": sorted({moment.step for each in maps for moment in each.moments}),
        "terms": term_maps(run),
        "heads": [row for row in heads if int(row["step"]) == last],
        "head_step": last,
        "field": chart_svg(field_chart(json.loads(field.read_text()))) if field.exists() else None,
        "sentences": sentences(run),
    }


def write(path: Path, template: str, content: dict[str, Any]) -> Path:
    environment = Environment(
        loader=PackageLoader("relformer.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["spoken"] = spoken
    write_text(path, environment.get_template(template).render(content))
    return path
