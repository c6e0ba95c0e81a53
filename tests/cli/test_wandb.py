"""One run with W&B, offline: no account, no question, and everything in one folder."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from matplotlib.image import imread

from tests.cli.runs import TINY, environment, losses, metrics, relformer, run_directories

RUN = (
    *TINY,
    "encoding=t5",
    "decoder_encoding=alibi",
    "cross_encoding=rope",
    "cross_encoding.fraction=.5",
    "trainer.max_steps=2",
    "logger=wandb",
    "logger.mode=offline",
    "paths.log_dir=runs",
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("wandb")
    ended = relformer(*RUN, cwd=made, script=True).succeeded()
    assert "wandb leet" in ended.out
    return made


def records(home: Path) -> tuple[Path, list[dict[str, Any]]]:
    """The one offline run, and what wandb itself reads in it."""
    (folder,) = (home / "runs" / "wandb").glob("offline-run-*")
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", f"{folder}/"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment(HOME=str(home)))
    return folder, [json.loads(line) for line in done.stdout.splitlines()]


def test_slots_take_their_own_encodings(home: Path) -> None:
    (run,) = run_directories(home)
    config = metrics(run)["config"]
    assert [config[slot]["name"] for slot in ("encoding", "decoder_encoding", "cross_encoding")] == [
        "t5",
        "alibi",
        "rope",
    ]
    assert config["cross_encoding"]["fraction"] == 0.5


def test_one_run_holds_config_losses_and_images(home: Path) -> None:
    (run,) = run_directories(home)
    folder, found = records(home)
    assert folder.name.endswith((run / "wandb_id").read_text().strip())
    started = next(record["run"] for record in found if record["type"] == "run")
    assert started["display_name"] == "reverse-t5-s0" and started["project"] == "relformer"
    assert started["config"]["update"]["decoder_encoding"]["name"] == "alibi"
    history = [record["history"]["item"] for record in found if record["type"] == "history"]
    steps = [item for item in history if "train/loss" in item]
    assert [float(item["train/loss"]) for item in steps] == [float(loss) for loss in losses(run).values()]
    final = {key: value for item in history for key, value in item.items()}
    exact = metrics(run)["checkpoints"]["last"]["test_longer"]
    assert final["test/longer/loss"] == pytest.approx(exact["loss"])
    assert final["test/longer/exact_match"] == exact["exact_match"]
    for stack in ("encoder", "decoder"):
        pictures = [item for item in history if f"bias/{stack}.path" in item]
        assert [item["trainer/global_step"] for item in pictures] == [0, 2]
        assert [item[f"bias/{stack}.caption"].split(":")[0] for item in pictures] == ["step 0", "step 2"]
        for item in pictures:
            assert imread(folder / "files" / item[f"bias/{stack}.path"]).ndim == 3
    assert found[-1]["exit"].get("exit_code", 0) == 0


def test_the_summary_keeps_the_best_and_notes_say_the_overrides(home: Path) -> None:
    _, found = records(home)
    started = next(record["run"] for record in found if record["type"] == "run")
    assert started["notes"].split()[:2] == ["data=reverse", "data.examples=600"]
    defined = [record["metric"] for record in found if record["type"] == "metric"]
    best = {each["name"]: each["summary"] for each in defined if each.get("name", "").startswith("val/")}
    assert {"val/iid/loss", "val/iid/exact_match", "val/longer/loss", "val/longer/exact_match"} <= set(best)
    assert all(summary.get("min" if name.endswith("loss") else "max") for name, summary in best.items())


def test_pictures_and_figures_have_folders_on_the_axis_of_steps(home: Path) -> None:
    _, found = records(home)
    history = [record["history"]["item"] for record in found if record["type"] == "history"]
    folders = {"bias/encoder", "bias/cross", "profile/decoder", "profile/receptive_field", "length/curves"}
    for key in folders:
        assert any(f"{key}.path" in item and "trainer/global_step" in item for item in history), key
    keys = {key for item in history for key in item}
    assert sum(key.startswith("attention/cross_sentence") and key.endswith(".path") for key in keys) == 2
    assert {"heads/encoder/layer1_head1/entropy", "heads/cross/layer2_head4/first", "figures/share_of_training"} <= keys
    assert any(key.startswith("length/longer/loss/") for key in keys)
