"""Keys and passwords stay out of every file a run writes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from relformer.redaction import redact, redact_argument, redact_text
from relformer.report.reading import read_settings
from tests.cli.runs import metrics, relformer, run_directories
from tests.reliability.small import FAST

TYPED, NESTED, INHERITED, WANDB = "typed-in-secret-1", "nested-secret-22", "hf_" + "Q7" * 17, "e1" * 20
KEEPS = "callbacks.keeps._target_=tests.reliability.poison.Keeps"


def holding(folder: Path, secret: str) -> list[str]:
    """Files with the secret in their content or their name."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    return [str(path) for path in found if secret.encode() in path.read_bytes() or secret in str(path)]


def test_no_file_of_a_run_holds_a_secret(tmp_path: Path) -> None:
    """A key on the command line, in a mapping, from the environment under a harmless name, and W&B's own."""
    (tmp_path / "here").mkdir()
    ended = relformer(
        *("data=reverse", "data.examples=200", "data.examples_per_length=4", *FAST, "trainer.max_steps=2"),
        *("logger=wandb", "logger.mode=offline", "+logger.settings={console: wrap, x_disable_stats: true}"),
        *(
            f"+{KEEPS}",
            f"+callbacks.keeps.api_key={TYPED}",
            f"+callbacks.keeps.more={{auth_token: {NESTED}, width: 3}}",
        ),
        "+callbacks.keeps.note='${oc.env:HF_TOKEN}'",
        "+callbacks.keeps.max_tokens=77123",
        f"+callbacks.keeps.url=https://me:{TYPED}@example.org",
        "trainer.devices=2",
        cwd=tmp_path / "here",
        env={"WANDB_API_KEY": WANDB, "HF_TOKEN": INHERITED},
    ).succeeded()
    (run,) = run_directories(tmp_path / "here" / "runs")
    for secret in (TYPED, NESTED, INHERITED, WANDB):
        assert holding(tmp_path / "here", secret) == [], secret
        assert secret not in ended.out + ended.error
    written = (run / ".hydra" / "overrides.yaml").read_text()
    assert "+callbacks.keeps.api_key=***" in written and "max_tokens=77123" in written
    assert "note: ${oc.env:HF_TOKEN}" in (run / ".hydra" / "config.yaml").read_text()
    (log,) = (tmp_path / "here" / "runs" / "wandb").glob("offline-run-*/run-*.wandb")
    assert b"callbacks.keeps.api_key=***" in log.read_bytes() and b"77123" in log.read_bytes()
    assert metrics(run)["checkpoints"]["last"]["step"] == 2


@pytest.mark.slow
def test_no_file_of_a_sweep_holds_a_secret(tmp_path: Path) -> None:
    relformer(
        *("-m", "data=reverse", "data.examples=200", "data.examples_per_length=4", *FAST, "trainer.max_steps=1,2"),
        *(f"+{KEEPS}", f"+callbacks.keeps.api_key={TYPED}", "hydra.sweep.dir=here"),
        cwd=tmp_path,
    ).succeeded()
    assert len(run_directories(tmp_path / "here")) == 2
    assert holding(tmp_path, TYPED) == []


@pytest.mark.parametrize(
    "argument",
    [
        *("trainer.max_steps=5", "data.max_tokens=4096", "+data.pad_token=<pad>", "data.tokenizer.kind=word"),
        *("+callbacks.a.sort_key=length", "encoding.parts=[{name: window, width: 8}, {name: rope}]", "seed=1"),
        *(
            "+x.num_tokens=12",
            "+x.token=3",
            "+x.hf_token=${oc.env:HF_TOKEN}",
            "encoding=rope_keynorm",
            "name=secretary",
        ),
    ],
)
def test_what_is_no_secret_stays(argument: str) -> None:
    assert redact_argument(argument) == argument
    assert redact([argument]) == [argument]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("+a.api_key=x", "+a.api_key=***"),
        ("+a.hf_token=abc", "+a.hf_token=***"),
        ("++a.password='a b'", "++a.password=***"),
        ("+a={_target_: b.C, secret: xyz, n: 3}", "+a={_target_: b.C, secret: ***, n: 3}"),
        ("+a=[{password: 'x y'}, 2]", "+a=[{password: ***}, 2]"),
        (f"+a.b={INHERITED}", "+a.b=***"),
        ("+a.b=ghp_" + "a1" * 18, "+a.b=***"),
        ("+a.b=sk-ant-api03-" + "x" * 40, "+a.b=***"),
        ("data.path=s3://AKIAABCDEFGHIJKLMNOP/x", "data.path=s3://***/x"),
        ("+a.b=http://me:pass@host/x", "+a.b=http://me:***@host/x"),
    ],
)
def test_what_is_a_secret_goes(given: str, kept: str) -> None:
    assert redact_argument(given) == kept
    assert redact({"overrides": [given]}) == {"overrides": [kept]}


def test_values_of_secret_variables_are_masked_wherever_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SERVICE_TOKEN", "abcdefgh-1234")
    monkeypatch.setenv("PIN_PASSWORD", "rope")  # as short as any word
    monkeypatch.setenv("SSH_SECRET_FILE", "/home/me/secret")
    config = {"a": "x abcdefgh-1234 y", "encoding": "rope", "path": "/home/me/secret"}
    assert redact(config) == config | {"a": "x *** y"}
    assert redact_text("abcdefgh-1234abcdefgh-1234") == "******"


def test_a_report_of_others_runs_reads_no_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARMLESS", "what nobody should see")
    (tmp_path / ".hydra").mkdir()
    OmegaConf.save(
        {"data": {"name": "${oc.env:HARMLESS}", "seed": "${seed}"}, "seed": 3}, tmp_path / ".hydra/config.yaml"
    )
    found = read_settings(tmp_path, None)
    assert "nobody" not in json.dumps(found) and found["data.seed"] == 3


def test_the_filter_of_the_logs(tmp_path: Path) -> None:
    """As Hydra sets it up, in a process of its own."""
    code = (
        "import logging, hydra\nfrom relformer.config import conf_dir, prepare\nprepare()\n"
        "@hydra.main(version_base='1.3', config_path=str(conf_dir()), config_name='train')\n"
        "def main(config):\n    logging.getLogger('relformer').info('key %s', 'hf_' + 'a1' * 15)\nmain()\n"
    )
    options = ["data=reverse", "hydra.run.dir=here"]
    env: dict[str, Any] = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code, *options], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "key ***\n" and (tmp_path / "here" / "train.log").read_text() == "key ***\n"
