"""Loggers: the choice of mode without network or account, redaction, the CSV over a resume, one offline run."""

import csv
import importlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightning.pytorch.utilities import rank_zero_only

from relformer.errors import UserError
from relformer.redaction import redact
from relformer.training import loggers
from relformer.training.loggers import build_loggers, finish, run_hint
from relformer.training.wandb_logger import SteadyWandbLogger

KEY = "k" * 40


@pytest.fixture(autouse=True)
def no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty home without login and a network where nobody answers."""
    for name in list(os.environ):
        if name.startswith("WANDB_") or name in ("NETRC", "no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rank_zero_only, "rank", 0)
    monkeypatch.setattr(socket, "create_connection", refuse)


def refuse(*_: object, **__: object) -> socket.socket:
    raise ConnectionRefusedError


def build(tmp_path: Path, **logger: Any) -> list[Any]:
    config = {"model": {"name": "t5"}, "logger": {"api_key": KEY}}
    options: dict[str, Any] = {"name": "n", "group": "g", "config": config, "tags": ["t"]}
    return build_loggers({"name": "wandb", **logger}, tmp_path / "log/run", tmp_path / "log", **options)


def mode(tmp_path: Path, wanted: str = "auto") -> str:
    built = build(tmp_path, mode=wanted)
    return str(built[1]._wandb_init["mode"]) if len(built) > 1 else "absent"


@pytest.mark.parametrize("name", ["csv", "none"])
def test_csv_is_always_first_and_survives_a_resume(tmp_path: Path, name: str) -> None:
    for step, metrics in ((0, {"loss": 1.0}), (1, {"loss": 0.5, "acc": 0.25})):
        built = build(tmp_path, name=name)
        assert [type(logger) for logger in built] == [CSVLogger]
        built[0].log_metrics(metrics, step=step)
    with (tmp_path / "log/run/csv/metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows == [{"acc": "", "loss": "1.0", "step": "0"}, {"acc": "0.25", "loss": "0.5", "step": "1"}]


def test_redact_goes_by_the_key() -> None:
    kept = {"num_tokens": "1", "max_tokens": 5, "pad_token": "<pad>", "token": 3, "password": None, "tokenizer": "bpe"}
    names = ("hf_token", "authToken", "WANDB_API_KEY", "apiKey", "dbPassword", "client_secret")
    secret = dict.fromkeys(names, "x") | {"secrets": ["x"], "password_2": 1}
    config = {"a": [{**kept, **secret}]}
    assert redact(config) == {"a": [{**kept, **dict.fromkeys(secret, "***")}]}
    assert config["a"][0]["hf_token"] == "x"


def test_auto_without_login_is_offline_and_says_so_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mode(tmp_path) == "offline"
    assert (text := capsys.readouterr().err).count("\n") == 1
    assert text.startswith("W&B: offline, no login found; run `wandb login`")
    assert run_hint(tmp_path / "log") in text


def test_auto_with_login_follows_the_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setenv("WANDB_BASE_URL", "https://wandb.example.org:8443")
    monkeypatch.setenv("no_proxy", "*")
    assert mode(tmp_path) == "offline"
    assert "https://wandb.example.org:8443 does not answer" in capsys.readouterr().err
    connect = MagicMock()
    monkeypatch.setattr(socket, "create_connection", connect)
    assert mode(tmp_path) == "online"
    assert connect.call_args.args == (("wandb.example.org", 8443),)
    monkeypatch.delenv("no_proxy")
    monkeypatch.setenv("https_proxy", "http://proxy.example.org:3128")
    assert mode(tmp_path) == "online"
    assert connect.call_args.args == (("proxy.example.org", 3128),)


def test_slow_network_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loggers, "CONNECT_SECONDS", 0.1)
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: threading.Event().wait(1) or refuse())
    start = time.monotonic()
    assert not loggers._answers("https://wandb.example.org")
    assert time.monotonic() - start < 0.8


def test_login_in_netrc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, path = "https://api.forge.coreweave.com", tmp_path / "home/.netrc"
    assert not loggers._netrc_login(server)
    path.parent.mkdir()
    for machine, found in (("api.wandb.ai", True), ("api.forge.coreweave.com", True), ("elsewhere.org", False)):
        path.write_text(f"machine {machine} login user password {KEY}\n")
        assert loggers._netrc_login(server) is found
    path.write_text("machine\n")
    assert not loggers._netrc_login(server)
    (tmp_path / "other").write_text(f"machine w.example.org:8443 login user password {KEY}\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "other"))
    assert loggers._netrc_login("https://w.example.org:8443")


def test_environment_decides_in_auto_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert mode(tmp_path) == "absent"
    assert mode(tmp_path, "offline") == "offline"
    monkeypatch.setenv("WANDB_MODE", "online")
    with pytest.raises(UserError, match="no login found"):
        mode(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "sometimes")
    with pytest.raises(UserError, match=r"WANDB_\* variables"):
        mode(tmp_path)


def test_user_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="no login found: run `wandb login`"):
        mode(tmp_path, "online")
    with pytest.raises(UserError, match=r"logger\.mode='maybe' must be one of auto"):
        mode(tmp_path, "maybe")
    with pytest.raises(UserError, match=r"logger\.name='mlflow' must be one of wandb"):
        build(tmp_path, name="mlflow")
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UserError, match="pip install wandb"):
        build(tmp_path)


def test_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(loggers, "TensorBoardLogger", MagicMock(side_effect=ModuleNotFoundError))
        with pytest.raises(UserError, match=r"pip install 'relformer\[tensorboard\]'"):
            build(tmp_path, name="tensorboard")
    pytest.importorskip("tensorboard")
    built = build(tmp_path, name="tensorboard")
    assert [type(logger) for logger in built] == [CSVLogger, TensorBoardLogger]
    built[1].finalize("success")
    assert KEY.encode() not in b"".join(p.read_bytes() for p in (tmp_path / "log").rglob("*") if p.is_file())


def test_other_ranks_make_the_same_loggers_but_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rank_zero_only, "rank", 1)
    built = build(tmp_path)
    finish(0)
    assert [type(logger) for logger in built] == [CSVLogger, SteadyWandbLogger]
    assert not [p for p in tmp_path.rglob("*") if p.is_file()] and not capsys.readouterr().err


def test_wandb_is_imported_only_when_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    importlib.reload(loggers)
    assert len(build(tmp_path, name="csv")) == 1
    finish(1)


def test_offline_run_holds_config_metrics_and_images(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    import wandb

    built = build(tmp_path, mode="offline", project="p", settings={"console": "off", "x_disable_stats": True})
    identity = (tmp_path / "log/run/wandb_id").read_text().strip()
    image = wandb.Image(np.zeros((8, 8, 3), np.uint8), caption="step 0")
    built[1].experiment.log({"bias/encoder": [image], "trainer/global_step": 0})
    built[1].log_metrics({"loss": 0.5}, step=3)
    finish(3)
    assert wandb.run is None
    wandb.teardown()
    (folder,) = (tmp_path / "log/wandb").glob(f"offline-run-*-{identity}")
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", f"{folder}/"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    records = [json.loads(line) for line in output.splitlines()]
    run = next(record["run"] for record in records if record["type"] == "run")
    history = [record["history"]["item"] for record in records if record["type"] == "history"]
    assert (run["run_id"], run["display_name"], run["run_group"], run["project"]) == (identity, "n", "g", "p")
    assert run["config"]["update"]["model"] == {"name": "t5"}
    assert run["config"]["update"]["logger"] == {"api_key": "***"}
    assert history[0]["bias/encoder.captions"] == ["step 0"]
    assert (folder / "files" / history[0]["bias/encoder.filenames"][0]).is_file()
    assert (history[1]["loss"], history[1]["trainer/global_step"]) == (0.5, 3)
    assert records[-1]["exit"]["exit_code"] == 3
    assert "anonymous" not in capfd.readouterr().err
    assert build(tmp_path, mode="offline")[1].version == identity


def test_a_row_torn_by_a_power_cut_goes_and_a_new_column_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text("step,train/loss\n0,2.5\n1,2.25\n2,2.1", newline="")
    writer = loggers._AppendingWriter(str(tmp_path))
    assert path.read_text() == "step,train/loss\n0,2.5\n1,2.25\n"
    writer.log_metrics({"train/loss": 2.0, "val/iid/loss": 3.0}, 2)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(os, "replace", killed)
        writer.save()
    assert path.read_text() == "step,train/loss\n0,2.5\n1,2.25\n"
    again = loggers._AppendingWriter(str(tmp_path))
    again.log_metrics({"train/loss": 2.0, "val/iid/loss": 3.0}, 2)
    again.save()
    with path.open(newline="") as file:
        assert [row["train/loss"] for row in csv.DictReader(file)] == ["2.5", "2.25", "2.0"]
