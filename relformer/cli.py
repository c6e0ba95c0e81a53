"""The commands: `relformer train` (what `train.py` runs), `relformer evaluate`, `relformer compare`, `relformer
encodings`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from relformer.errors import UserError

USAGE = """usage: relformer [train] [overrides]        train: encoding=alibi data=reverse seed=1 (see conf/)
       relformer evaluate RUN [overrides]   evaluate a finished run again: data.test.max_length=40
       relformer compare RUNS               group runs by everything but the seed: mean, spread and n
       relformer encodings                  the positional encodings there are"""


def main() -> None:
    """Run a command. Faults of the user end in one sentence and exit code 2; real faults keep their traceback."""
    arguments = sys.argv[1:]
    command = arguments[0] if arguments and arguments[0] in COMMANDS else "train"
    rest = arguments[1:] if arguments and arguments[0] == command else arguments
    if rest and "=" not in rest[0] and not rest[0].startswith(("-", "+", "~")) and command in ("train", "encodings"):
        fail(f"no command {rest[0]!r}\n{USAGE}")
    try:
        COMMANDS[command](rest)
    except UserError as error:
        fail(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


def fail(message: str) -> None:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(2)


def train(arguments: list[str]) -> None:
    from relformer.training.launch import launch

    launch(arguments)


def evaluate(arguments: list[str]) -> None:
    if not arguments or arguments[0].startswith("-") or "=" in arguments[0]:
        raise UserError("evaluate needs a run: relformer evaluate runs/.../STAMP data.test.max_length=40")
    from relformer.training.evaluate import evaluate_run

    evaluate_run(arguments[0], arguments[1:])


def compare(arguments: list[str]) -> None:
    if not arguments:
        raise UserError("compare needs runs, or folders that hold some: relformer compare runs/reverse-*")
    from relformer.evaluation.compare import compare_runs

    compare_runs(arguments)


def encodings(arguments: list[str]) -> None:
    from rich.console import Console
    from rich.table import Table

    import relformer.encodings  # noqa: F401  registers them
    from relformer.registry import encodings as registry
    from relformer.registry import load_plugins

    load_plugins()
    table = Table()
    columns = ("name", "family", "changes", "learned", "beyond", "paper")
    for column in columns:
        table.add_column({"beyond": "beyond the trained length"}.get(column, column), no_wrap=column == "name")
    for name in registry:
        facts = registry[name].facts
        table.add_row(name, *(facts.get(column, "") for column in columns[1:]))
    Console(width=None if Console().is_terminal else 140).print(table)


COMMANDS: dict[str, Callable[[list[str]], None]] = {
    "train": train,
    "evaluate": evaluate,
    "compare": compare,
    "encodings": encodings,
}

os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # our messages for configuration, full tracebacks for faults
