"""The loggers of a run: a CSV file always, W&B or TensorBoard on top.

W&B never asks a question and never waits long for a network: the mode is settled here, before wandb starts.
"""

import contextlib
import csv
import netrc
import os
import re
import secrets
import shlex
import socket
import sys
import threading
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger
from lightning.pytorch.loggers.csv_logs import ExperimentWriter
from lightning.pytorch.utilities import rank_zero_only

from relformer.errors import OptionError, UserError
from relformer.files import replacing
from relformer.redaction import redact, redacted_command_line
from relformer.schema import LOGGER_MODES, LOGGERS
from relformer.training.disk import spared
from relformer.training.wandb_logger import SteadyWandbLogger, let_go

CONNECT_SECONDS = 3.0
Goal = Literal["min", "max"]
RUN_ID = re.compile(r"[\w-]{1,64}")


def build_loggers(
    logger: Mapping[str, Any],
    run_dir: Path,
    log_dir: Path,
    *,
    name: str,
    group: str | None,
    config: dict[str, Any],
    tags: list[str],
    notes: str = "",
    best: Mapping[str, Goal] = {},
) -> list[Logger]:
    """Loggers for the Trainer; the first is always the CSV file ``<run_dir>/csv/metrics.csv``.

    ``logger["name"]`` is wandb, tensorboard, csv or none (the last two: only the CSV); wandb also reads ``project``,
    ``mode`` and ``settings`` (more W&B settings). All runs share ``<log_dir>/wandb``. The config is redacted first.
    `best` names figures of which W&B's summary keeps the least or the greatest beside the last.
    Raises UserError for an unknown choice, a missing package, or online W&B without login or server.
    """
    kind = logger.get("name", "csv")
    if kind not in LOGGERS:
        raise OptionError("name", kind, f"must be one of {', '.join(LOGGERS)}", path="logger")
    loggers: list[Logger] = [_csv(run_dir)]
    try:
        if kind == "tensorboard":
            loggers.append(TensorBoardLogger(run_dir, name="", version="tensorboard", default_hp_metric=False))
            loggers[1].log_hyperparams(redact(config))
        elif kind == "wandb" and (mode := _wandb_mode(logger.get("mode", "auto"), log_dir)) != "disabled":
            options = {"name": name, "group": group, "config": redact(config), "tags": tags, "mode": mode}
            loggers.append(wandb := _wandb(logger, run_dir, log_dir, options | {"notes": notes or None}))
            with redacted_command_line():  # the first use of the experiment starts W&B, which records it
                for figure, goal in best.items():
                    axis = {"step_metric": "trainer/global_step", "step_sync": True}
                    wandb.experiment.define_metric(figure, summary=f"{goal},last", **axis)
    except ModuleNotFoundError:
        package = "'relformer[tensorboard]'" if kind == "tensorboard" else "wandb"
        raise UserError(f"logger.name={kind} needs a package that is missing: pip install {package}") from None
    return loggers


def finish(exit_code: int) -> None:
    """End the open W&B run of this process, if there is one; belongs in a ``finally`` so that no run leaks.

    Never raises: a broken W&B service must not hide the fault that ended the training.
    """
    wandb = sys.modules.get("wandb")
    try:
        if wandb is not None and getattr(wandb, "run", None) is not None and _rank() == 0:
            wandb.finish(exit_code=exit_code)
    except Exception as error:
        print(f"warning: W&B: the run could not be closed ({type(error).__name__}: {error})", file=sys.stderr)
        let_go()


def run_hint(log_dir: Path) -> str:
    """The command that shows all W&B runs of this folder in the terminal, without account or network."""
    return f"wandb leet {shlex.quote(str(log_dir / 'wandb'))}"


def sync_hint(log_dir: Path, run_dir: Path) -> str | None:
    """The command that uploads the parts of a run that was resumed offline; each part is a folder of one id."""
    stored = run_dir / "wandb_id"
    run_id = stored.read_text(encoding="utf-8").strip() if stored.exists() else "?"
    parts = sorted((log_dir / "wandb").glob(f"offline-run-*-{run_id}"))
    return f"wandb sync {shlex.join(map(str, parts))}" if len(parts) > 1 else None


class _AppendingWriter(ExperimentWriter):
    def _check_log_dir_exists(self) -> None:
        """Take over the columns of an earlier file, which the stock method deletes: a resumed run keeps its history.

        Steps trained twice (after the checkpoint, before the interruption) have two rows; the last is the valid one.
        """
        path = Path(self.metrics_file_path)
        if path.is_file():
            content = path.read_bytes()
            if not content.endswith(b"\n"):  # a power cut in the middle of a row
                os.truncate(path, content.rfind(b"\n") + 1)
            with path.open(newline="") as file:
                self.metrics_keys = next(csv.reader(file), [])

    def _rewrite_with_new_header(self, fieldnames: list[str]) -> None:
        """As the stock method, but a kill in the midst of it or a full disk leaves the old file."""
        path = Path(self.metrics_file_path)
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=fieldnames)
            writer.writeheader()
            writer.writerows(rows)
        self.whole = path.stat().st_size

    def save(self) -> None:
        """Rows that the disk does not take stay here, and are written with the next that it takes."""
        path = Path(self.metrics_file_path)
        self.whole = path.stat().st_size if path.exists() else 0
        with spared(f"the log {path}"):
            try:
                super().save()
            except OSError:
                self._without_half_a_row(path)
                raise

    def _without_half_a_row(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            if self.whole:
                os.truncate(path, self.whole)
            else:
                path.unlink(missing_ok=True)
        self.metrics_keys = []
        self._check_log_dir_exists()


def _rank() -> int:
    return getattr(rank_zero_only, "rank", 0)


def _csv(run_dir: Path) -> Logger:
    logger = CSVLogger(run_dir, name="", version="csv", flush_logs_every_n_steps=1)
    if _rank() == 0:
        logger._experiment = _AppendingWriter(logger.log_dir)
    return logger


def _wandb(logger: Mapping[str, Any], run_dir: Path, log_dir: Path, options: dict[str, Any]) -> SteadyWandbLogger:
    """The logger with the run's id, which is stored in ``<run_dir>/wandb_id`` now so that any later part finds it."""
    log_dir.mkdir(parents=True, exist_ok=True)
    stored = run_dir / "wandb_id"
    run_id = stored.read_text(encoding="utf-8").strip() if stored.exists() else ""
    if run_id and not RUN_ID.fullmatch(run_id):
        raise UserError(f"{stored} holds {run_id!r:.80}, which is no id of a W&B run; remove the file")
    if not run_id and _rank() == 0:
        run_id = secrets.token_hex(4)
        stored.write_text(run_id + "\n", encoding="utf-8")
    options["project"] = logger.get("project") or "relformer"
    settings = {"x_transaction_log_flush_interval": 1, "init_timeout": 20, "silent": options["mode"] == "offline"}
    options["settings"] = {**settings, **(logger.get("settings") or {})}
    wandb = SteadyWandbLogger(save_dir=log_dir, id=run_id or None, log_model=False, **options)
    wandb._wandb_init.pop("anonymous", None)  # wandb warns about it in each run, even when it is None
    return wandb


def _wandb_mode(mode: str, log_dir: Path) -> str:
    """The mode for wandb.init: online, offline or disabled. Only rank zero looks at login and network."""
    if mode not in LOGGER_MODES:
        raise OptionError("mode", mode, f"must be one of {', '.join(LOGGER_MODES)}", path="logger")
    import wandb

    try:
        settings = wandb.Settings(quiet=True)
        folder = os.environ.get("WANDB_CONFIG_DIR") or "~/.config/wandb"
        settings.settings_system = str(Path(folder, "settings").expanduser())
        settings.update_from_system_settings()
        settings.update_from_env_vars(dict(os.environ))
    except (ValueError, wandb.Error) as error:
        fault = " ".join(str(error).split(" [type=")[0].split())
        raise UserError(f"W&B refuses its settings, look at the WANDB_* variables: {fault}") from None
    wanted = settings.mode if mode == "auto" else mode
    if wanted == "disabled":
        return "disabled"
    if wanted in ("offline", "dryrun") or _rank():
        return "offline"
    if not (settings.api_key or settings.identity_token_file or _netrc_login(settings.base_url)):
        fault, remedy = "no login found", "run `wandb login` or set WANDB_API_KEY"
    elif _answers(settings.base_url):
        return "online"
    else:
        fault, remedy = f"{settings.base_url} does not answer", "check the network or WANDB_BASE_URL"
    if mode == "online" or os.environ.get("WANDB_MODE") == "online":
        raise UserError(f"W&B cannot go online, {fault}: {remedy}, or set logger.mode=offline")
    print(f"W&B: offline, {fault}; {remedy} to go online, or browse with `{run_hint(log_dir)}`", file=sys.stderr)
    return "offline"


def _netrc_login(base_url: str) -> bool:
    """Whether netrc holds a key for the W&B server, by wandb's own rules ($NETRC, ~/.netrc, ~/_netrc)."""
    host = urlsplit(base_url).netloc
    hosts = (host, "api.wandb.ai" if host.endswith("forge.coreweave.com") else host)
    places = [os.environ["NETRC"]] if os.environ.get("NETRC") else ["~/.netrc", "~/_netrc"]
    path = next((p for place in places if (p := Path(place).expanduser()).exists()), os.devnull)
    with contextlib.suppress(netrc.NetrcParseError, OSError):
        entries = [netrc.netrc(path).authenticators(host) for host in hosts]
        return any(entry is not None and entry[2] for entry in entries)
    return False


def _answers(base_url: str) -> bool:
    """Whether the server, or the proxy on the way, takes a TCP connection within 3 s, name look-up included."""
    url = urlsplit(base_url)
    proxy = None if urllib.request.proxy_bypass(url.hostname or "") else urllib.request.getproxies().get(url.scheme)
    if proxy:
        url = urlsplit(proxy if "//" in proxy else f"//{proxy}")
    address = (url.hostname or "", url.port or (443 if url.scheme == "https" else 80))
    connected = threading.Event()

    def connect() -> None:
        with contextlib.suppress(OSError), socket.create_connection(address, timeout=CONNECT_SECONDS):
            connected.set()

    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(CONNECT_SECONDS)
    return connected.is_set()
