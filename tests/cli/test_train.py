"""`python train.py`: what a run prints and leaves, and evaluating it again."""

import json
import re
from pathlib import Path

import pytest
from matplotlib.image import imread

from relformer.evaluation.outcomes import COLUMNS
from tests.cli.runs import TINY, Ended, content, losses, metrics, relformer, results, run_directories

Trained = tuple[Path, Ended]
SETS = ["val_iid", "val_longer", "test_iid", "test_longer"]


def test_a_run_says_what_it_is(trained: Trained) -> None:
    _, ended = trained
    assert "Traceback" not in ended.error
    lines = ended.out.splitlines()
    for role, encoding in (("encoder", "t5"), ("decoder", "t5"), ("cross", "none")):
        assert sum(line.split()[:2] == [role, encoding] for line in lines) == 1
    assert any("num_buckets=32" in line for line in lines if line.startswith("encoder"))
    assert any(line.startswith("parameters ") and "in encodings" in line for line in lines)
    assert any("step    12/12" in line and "iid" in line and "longer" in line for line in lines)


def test_a_run_prints_its_table_by_length(trained: Trained) -> None:
    run, ended = trained
    table = [[cell.strip() for cell in line.split("│")[1:-1]] for line in ended.out.splitlines() if "│" in line]
    assert [row[1] for row in table if row[0] == "test_longer"] == [*map(str, range(13, 21)), "all"]
    whole = metrics(run)["checkpoints"]["last"]
    for name in ("test_iid", "test_longer"):
        (row,) = [row for row in table if row[:2] == [name, "all"]]
        assert int(row[2]) == whole[name]["n"]
        assert float(row[3]) == pytest.approx(whole[name]["exact_match"], abs=5.1e-4)
        assert float(row[-1]) == pytest.approx(whole[name]["loss"], abs=5.1e-4)
    assert "the beyond-length result is not interpretable" in ended.out


def test_a_run_directory_is_named_for_the_run_and_lies_where_told(trained: Trained) -> None:
    run, _ = trained
    assert run.parent.name == "reverse-t5-s0"
    assert sorted(path.name for path in run.parents[2].iterdir() if not path.name.startswith(".")) == ["runs"]
    assert len(list(run.parent.iterdir())) == 1


def test_metrics_hold_both_checkpoints_and_every_length(trained: Trained) -> None:
    run, _ = trained
    found = metrics(run)
    assert found["checkpoint"] == "last" and found["trained_length"] == 10
    assert set(found["checkpoints"]) == {"last", "best_val"}
    assert found["checkpoints"]["last"]["step"] == 12
    for sets in found["checkpoints"].values():
        assert [name for name in sets if name != "step"] == SETS
        assert [each["n"] for each in sets["test_longer"]["by_length"]] == [20] * 8
        assert sets["test_longer"]["n"] == 160
    assert found["cost"]["parameters"] > found["cost"]["position_parameters"] == 2 * 32 * 4
    assert found["cost"]["seconds_per_step"] > 0
    assert found["config"]["encoding"]["num_buckets"] == 32


def test_examples_are_one_line_each_and_add_up(trained: Trained) -> None:
    run, _ = trained
    records = [json.loads(line) for line in (run / "examples.jsonl").read_text().splitlines()]
    whole = results(run)["last"]
    for name in ("test_iid", "test_longer"):
        mine = [record for record in records if record["set"] == name]
        assert [record["index"] for record in mine] == list(range(whole[name]["n"]))
        assert sum(r["exact_match"] for r in mine) / len(mine) == pytest.approx(whole[name]["exact_match"])
        tokens = sum(record["target_length"] + 1 for record in mine)
        assert sum(record["loss"] for record in mine) / tokens == pytest.approx(whole[name]["loss"])
        assert sum(r["correct_tokens"] for r in mine) / tokens == pytest.approx(whole[name]["token_accuracy"])
    for record in records:
        assert set(record) == {"set", *COLUMNS}
        assert record["source_length"] == record["target_length"]
        assert all(isinstance(record[key], int) for key in COLUMNS if key != "loss")
    assert {record["set"] for record in records} == {"test_iid", "test_longer"}


def test_pictures_and_the_log_of_losses(trained: Trained) -> None:
    run, _ = trained
    assert min(imread(run / "length_curve.png").shape[:2]) > 100
    steps = {path.stem for path in (run / "heatmaps").glob("*.npz")}
    assert steps == {f"{stack}_step{step:06d}" for stack in ("encoder", "decoder", "cross") for step in (0, 6, 12)}
    written = losses(run)
    assert len(written) == 12
    assert float(written[max(written)]) < float(written[min(written)])


def test_a_run_shows_its_page_its_heads_and_what_looking_cost(trained: Trained) -> None:
    run, ended = trained
    assert f"page        {run / 'report.html'}" in ended.out
    assert "</html>" in (run / "report.html").read_text()
    assert re.search(r"^measuring and drawing took [\d.]+ s of \d+ s of training \([\d.]+ %\)$", ended.out, re.M)
    rows = (run / "heads.csv").read_text().splitlines()
    assert len(rows) == 1 + 2 * (2 + 2 + 2) * 4  # steps 0 and 12, attentions, heads
    assert {path.name for path in (run / "length").iterdir()} == {f"validation_step{n:06d}.png" for n in (4, 8, 12)}
    assert len(list((run / "attention").glob("*.npz"))) == 2 and (run / "profiles" / "receptive_field.json").exists()


def test_evaluating_again_on_other_lengths(trained: Trained, tmp_path: Path) -> None:
    run, _ = trained
    before = content(run)
    lengths = ("data.test.min_length=21", "data.test.max_length=22", "trainer.accelerator=cpu")
    ended = relformer("evaluate", str(run), *lengths, cwd=tmp_path).succeeded()
    after = content(run)
    assert {path: after[path] for path in before} == before
    (folder,) = (run / "evaluations").iterdir()
    found = metrics(folder)
    assert [each["min_length"] for each in found["test_longer"]["by_length"]] == [21, 22]
    for name in ("val_iid", "val_longer", "test_iid"):
        for key, value in results(run)["last"][name].items():
            if key != "by_length":
                assert found[name][key] == pytest.approx(value, abs=1e-6), (name, key)
    assert {path.name for path in folder.iterdir()} == {
        "metrics.json",
        "examples.jsonl",
        "outputs.jsonl",
        "length_curve.png",
    }
    assert str(folder / "metrics.json") in ended.out
    records = [json.loads(line) for line in (folder / "examples.jsonl").read_text().splitlines()]
    assert {record["target_length"] for record in records if record["set"] == "test_longer"} == {21, 22}


@pytest.mark.parametrize("encoding", ["rope", pytest.param("shaw", marks=pytest.mark.slow)])
def test_the_real_command_trains_other_families(tmp_path: Path, encoding: str) -> None:
    more = (f"encoding={encoding}", "trainer.max_steps=2", "logger=csv", "paths.log_dir=runs")
    relformer(*TINY, *more, cwd=tmp_path, script=True).succeeded()
    (run,) = run_directories(tmp_path / "runs")
    assert results(run)["last"]["step"] == 2
    assert sorted(losses(run)) == [0, 1]
