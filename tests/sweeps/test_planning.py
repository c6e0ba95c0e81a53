"""From a command line to jobs: lists, lines, seeds; what can't be composed is shown as a list of runs."""

import os
import shlex
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from relformer.config import compose, slots_chosen
from relformer.errors import UserError
from relformer.launched import launched
from relformer.sweeps.command import Sweep, refuse, run_sweep
from relformer.sweeps.job import Job, refuse_alone, run_key
from relformer.sweeps.planning import combined, hydra_of_jobs, is_swept, planned, words
from tests.config.composed import SMALL

OmegaConf.register_new_resolver("run_key", run_key, replace=True)


def jobs_of(*overrides: str) -> list[Job]:
    given = [*SMALL, *slots_chosen(overrides)]
    return planned(given, combined(compose(given), given))


def own(*overrides: str) -> list[str]:
    return [str(job) for job in jobs_of(*overrides)]


def test_a_grid_is_every_combination() -> None:
    assert own("encoding=t5,alibi", "seed=3,4") == [
        "encoding=t5 seed=3",
        "encoding=t5 seed=4",
        "encoding=alibi seed=3",
        "encoding=alibi seed=4",
    ]


def test_jobs_have_directories_and_keys_of_their_own() -> None:
    first, second = jobs_of("encoding=t5,alibi", "hydra.sweep.dir=home")
    assert [first.directory, second.directory] == [
        Path.cwd() / "home" / "0_reverse-t5-s0",
        Path.cwd() / "home" / "1_reverse-alibi-s0",
    ]
    assert first.key != second.key and not Path("home").exists()


def test_keys_tell_apart_what_changes_a_run_and_nothing_else() -> None:
    def key(*options: str) -> str:
        return run_key(_root_=compose([*SMALL, *options]))

    stopping = ("callbacks=early_stopping", "callbacks.early_stopping.patience=2")
    own = "+callbacks.mine._target_=my.Callback"
    others = [
        ("init_from=runs/a",),
        ("init_from=runs/b",),
        ("init_from=runs/a", "init_strict=false"),
        ("callbacks=early_stopping",),
        stopping,
        ("callbacks.divergence.stop=true",),
        (own,),
        (own, "+callbacks.mine.strength=2"),
        ("callbacks.finite_steps=null",),
        ("eval.checkpoint=best_val",),
        ("eval.checkpoint=best_val", "callbacks.best_checkpoint.monitor=val/longer/loss"),
        ("trainer.max_epochs=3",),
        ("trainer.max_epochs=3", f"trainer.max_steps={compose(SMALL).data.max_steps}"),
    ]
    assert len({key(), *(key(*each) for each in others)}) == 1 + len(others)
    watching = ("callbacks.bias_heatmaps=null", "callbacks.progress.every_n_steps=7", "paths.run_dir=elsewhere")
    assert key(*watching) == key("callbacks=averaging") == key("init_strict=false") == key()
    assert key(*stopping, "paths.run_dir=elsewhere") == key(*stopping)
    assert key("init_from=./runs/a/") == key("init_from=runs/a")


def test_lines_are_runs_and_lists_multiply_them(tmp_path: Path) -> None:
    runs = 'sweep.runs=["encoding=t5 encoding.num_buckets=16,8","encoding=alibi"]'
    found = jobs_of("sweep=list", runs, "seed=0,1")
    tables = ["encoding=t5 encoding.num_buckets=16", "encoding=t5 encoding.num_buckets=8", "encoding=alibi"]
    assert sorted(map(sorted, (job.own for job in found))) == sorted(
        sorted([f"seed={seed}", *table.split()]) for seed in (0, 1) for table in tables
    )
    file = tmp_path / "runs.txt"
    file.write_text("# both tables\nencoding=t5 encoding.num_buckets=16,8\n\nencoding=alibi  # none\n")
    assert own("sweep=list", f"sweep.runs={file}", "seed=0,1") == [str(job) for job in found]


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("name=a#b  # why", ["name=a#b"]),
        ("  # seed=1", []),
        ("name='c # d' seed=1#2 #", ["name=c # d", "seed=1#2"]),
        ("'encoding.parts=[{name: window, width: 8}]' \\#x", ["encoding.parts=[{name: window, width: 8}]", "#x"]),
    ],
)
def test_comments_begin_where_a_word_would(line: str, read: list[str]) -> None:
    assert words(line) == read


def test_what_is_listed_twice_is_run_once() -> None:
    assert own("seed=0,0,1") == ["seed=0", "seed=1"]
    assert own("sweep=list", 'sweep.runs=["seed=3","seed=3","seed=4"]') == ["seed=3", "seed=4"]


def test_none_is_a_choice() -> None:
    assert own("decoder_encoding=rope,null") == ["encoding@decoder_encoding=rope", "~encoding@decoder_encoding"]
    assert own("sweep=null", "experiment=null", "seed=0,1") == ["seed=0", "seed=1"]
    (job,) = jobs_of("sweep=null")
    assert not any(is_swept(each) for each in job.overrides)


def test_a_line_may_choose_for_a_slot_and_wins_over_the_command_line() -> None:
    (job,) = jobs_of("sweep=list", 'sweep.runs=["decoder_encoding=alibi seed=7"]', "seed=1")
    assert "encoding@decoder_encoding=alibi" in job.overrides
    assert [each for each in job.overrides if each.startswith("seed=")] == ["seed=7"]


def test_seeds_count_from_the_seed() -> None:
    assert own("sweep=seeds", "sweep.n=3") == ["seed=0", "seed=1", "seed=2"]
    assert own("sweep=seeds", "sweep.n=2", "seed=10", "encoding=t5,alibi") == [
        "seed=10 encoding=t5",
        "seed=10 encoding=alibi",
        "seed=11 encoding=t5",
        "seed=11 encoding=alibi",
    ]


def test_a_list_for_one_encoding_alone_is_shown_as_a_list_of_runs() -> None:
    """And what is shown can be run."""
    with pytest.raises(UserError, match=r"encoding=alibi encoding\.num_buckets=16.*no config key") as error:
        jobs_of("encoding=t5,alibi", "encoding.num_buckets=16,32", "seed=0,1", "trainer.max_steps=20")
    words = shlex.split(str(error.value).splitlines()[-1])
    lines = '["encoding=t5 encoding.num_buckets=16","encoding=t5 encoding.num_buckets=32","encoding=alibi"]'
    assert words[:4] == ["python", "train.py", "sweep=list", f"sweep.runs={lines}"]
    assert words[4:] == [*SMALL, "seed=0,1", "trainer.max_steps=20"]
    found = planned(words[2:], combined(compose(words[2:]), words[2:]))
    assert len(found) == 6 and sum("encoding=alibi" in job.overrides for job in found) == 2


def test_a_line_of_a_file_is_named_by_its_number(tmp_path: Path) -> None:
    file = tmp_path / "runs.txt"
    file.write_text("# seeds\nseed=1\nname='open\n")
    with pytest.raises(UserError, match=r"runs\.txt:3: No closing quotation"):
        jobs_of("sweep=list", f"sweep.runs={file}")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["sweep=list"], "has no line; give a file of them, or a list"),
        (["sweep=list", "sweep.runs=nowhere.txt"], "nowhere.txt can't be read"),
        (["sweep=seeds", "sweep.n=0"], "sweep.n=0 must be at least 1"),
        (["sweep=seeds", "seed=1,2"], "seed=1,2 and sweep.n=5 both list seeds"),
        (["optimizer.lr=interval(0.1,1)"], "a range without steps is for a search: sweep=optuna"),
        (["model.width=64,abc"], "a job of the sweep can't be composed: model.width=abc"),
        (
            ["sweep=list", 'sweep.runs=["seed=1","encoding"]'],
            "sweep.runs, line 2: 'encoding' can't be read as key=value",
        ),
        (["sweep=list", "sweep.runs=3"], "runs=3 is not a list of lines"),
        (["sweep=list", 'sweep.runs=["seed=1 sweep.n=3"]'], "sweep.n=3 in a line of sweep.runs is of the sweep"),
        (["seed=0,1", "hydra.sweep.subdir=same"], r"jobs 0 \(seed=0\) and 1 \(seed=1\) .* share the directory"),
    ],
)
def test_what_is_no_sweep_is_said(overrides: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        jobs_of(*overrides)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["sweep=joblib", "sweep.at_once=0"], "at_once=0 must be at least 1"),
        (["sweep=slurm", "sweep.cluster=pbs"], "is not one of slurm, local"),
        (["sweep=optuna", "sweep.n=2"], "leave out one"),
        (["hydra.sweeper._target_=hydra_plugins.hydra_optuna_sweeper.OptunaSweeper"], "choose sweep=optuna"),
    ],
)
def test_options_that_do_not_go_together_are_refused(overrides: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        refuse(compose([*SMALL, *overrides]))


@pytest.mark.parametrize("variables", [{"TORCHELASTIC_RUN_ID": "1"}, {"SLURM_STEP_NUM_TASKS": "2"}])
def test_ranks_from_outside_make_no_sweep(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match="a sweep starts its own processes"):
        refuse(compose([*SMALL, "sweep=grid"]))


def test_a_shell_of_slurm_is_none_of_its_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an allocation a shell has the variables of the first task, and a sweep's jobs would take themselves for it."""
    for name, value in {"SLURM_JOB_ID": "4711", "SLURM_NTASKS": "2", "SLURM_NNODES": "1", "SLURM_PROCID": "0"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MASTER_PORT", "1")
    started: list[Job] = []

    def noted(sweep: Sweep, jobs: list[Job]) -> None:
        assert launched() is None and "SLURM_PROCID" not in os.environ and "MASTER_PORT" not in os.environ
        assert os.environ["SLURM_JOB_ID"] == "4711" and sweep.home in jobs[0].directory.parents
        started.extend(jobs)

    monkeypatch.setattr(Sweep, "run", noted)
    given = [*SMALL, f"paths.log_dir={tmp_path}", "seed=0,1"]
    run_sweep(compose(given), [], given)
    assert [job.devices for job in started] == [1, 1] and "4711" not in str(started[0].directory.relative_to(tmp_path))


@pytest.mark.parametrize(("option", "remedy"), [("runs=[a]", "sweep=list"), ("n=3", "seeds"), ("trials=3", "optuna")])
def test_options_of_a_sweep_want_one(option: str, remedy: str) -> None:
    with pytest.raises(UserError, match=f"is for a sweep: add .*{remedy}"):
        refuse_alone(compose([*SMALL, f"sweep.{option}"]))


def test_jobs_are_told_what_is_theirs() -> None:
    given = ["sweep=seeds", "sweep.objective=val/iid/exact_match", "hydra.sweep.dir=a", "hydra.searchpath=[file:///x]"]
    (job, _) = planned(given, combined(compose([*SMALL, "sweep.n=2"]), given))
    assert job.overrides == ["sweep.objective=val/iid/exact_match", "seed=0"]
    assert hydra_of_jobs(given) == ["hydra.searchpath=[file:///x]"]
