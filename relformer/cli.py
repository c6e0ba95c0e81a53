"""The commands of `relformer`; `train` is also what `train.py` runs."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from relformer.errors import UserError
from relformer.faults import VARIABLE, arm
from relformer.files import FULL
from relformer.processes import end_with_launcher
from relformer.registry import did_you_mean
from relformer.training.signals import ending_at_once, signals

USAGE = """usage: relformer [train] [overrides]        train: encoding=alibi data=reverse seed=1 (see conf/)
       relformer evaluate RUN [overrides]   evaluate a finished run again: data.test.max_length=40
       relformer translate RUN [options]    lines to lines: input=FILE output=FILE decoding=beam (- is stdin, stdout)
       relformer import PATH to=FOLDER      a T5, BART or Marian of the Hugging Face hub, or of a folder, as a run
       relformer export RUN to=FOLDER       a run as a folder to keep or send; format=torch_export: graphs to deploy
       relformer export RUN hf=FOLDER       a run with T5's options as a T5 of transformers
       relformer data [overrides]           look at the data of a run before training
       relformer report RUN | FOLDER        one HTML page of a run, or an index of all runs in a folder
       relformer compare RUNS [options]     group runs by everything but the seed, test them: baseline=t5 html=f.html
       relformer published [RUNS] [out=F]   figures of papers beside those of our runs, as Markdown
       relformer sweep status FOLDER        the jobs of a sweep: which finished, run, failed or wait
       relformer figure KIND RUNS out=FILE  curve, scatter, pareto or bias for a paper: out=f.pdf
       relformer probe RUN [options]        what a model makes of word order: set=test_iid distances=1,2,4
       relformer benchmark KIND [options]   what an encoding costs here: attention, step, decode, loss or epoch
       relformer encodings                  the positional encodings there are
       relformer encodings show NAME        one of them: formula, options, slots
       relformer encodings check TARGET     a name, or my.module:MyEncoding [option=value ...]"""

UNSAFE_LOADING = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"


def main() -> None:
    """Run a command. Faults of the user end in one sentence and exit code 2, those that stop a run in 1; real faults
    keep their traceback."""
    ignore_unsafe_loading()
    logging.basicConfig(format="%(message)s")  # until Hydra sets up its own
    logging.getLogger("relformer").setLevel(logging.INFO)
    arguments = sys.argv[1:]
    console = Path(sys.argv[0]).name != "train.py"
    asked = bool(arguments) and arguments[-1] in ("--help", "-h") and len(arguments) <= 2
    if console and (not arguments or (asked and arguments[0] not in WITH_HELP)):
        print(f"{USAGE}\n       relformer train --help                what can be configured")
        return
    command = arguments[0] if arguments and arguments[0] in COMMANDS else "train"
    rest = arguments[1:] if arguments and arguments[0] == command else arguments
    if rest and "=" not in rest[0] and not rest[0].startswith(("-", "+", "~")) and command == "train":
        fail(f"no command {rest[0]!r}{did_you_mean(rest[0], COMMANDS)}\n{USAGE}")
    if command in RUN_MODELS:
        flush_denormals()
    try:
        arm(os.environ.get(VARIABLE))
        with nullcontext() if command == "translate" else signals:  # translate keeps what it has at a Ctrl-C
            COMMANDS[command](rest)
    except UserError as error:
        fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        if error.errno not in FULL:
            raise
        fail(f"{error.filename or 'a file'} can't be written: {error.strerror}; make room, then try again", 1)


def flush_denormals() -> None:
    """Numbers below 1e-38 become 0: the softmax of a steep bias makes them, and a CPU is slow with them.

    Measured at 512 tokens: ALiBi takes 2.2 times as long otherwise.
    """
    with ending_at_once():
        import torch

    torch.set_flush_denormal(True)


def ignore_unsafe_loading() -> None:
    """Take the variable that makes torch run whatever a checkpoint's pickle says out of this process and its children,
    and say so."""
    if os.environ.pop(UNSAFE_LOADING, None):
        print(f"warning: {UNSAFE_LOADING} is ignored: no checkpoint is loaded with its code", file=sys.stderr)


def fail(message: str, code: int = 2) -> None:
    """Ranks that stop with another one have nothing to say."""
    if message:
        print(f"error: {message}", file=sys.stderr)
    sys.exit(code)


def train(arguments: list[str]) -> None:
    end_with_launcher()
    with ending_at_once():
        from relformer.training.launch import launch

    launch(arguments)


def evaluate(arguments: list[str]) -> None:
    if not arguments or arguments[0].startswith("-") or "=" in arguments[0]:
        raise UserError("evaluate needs a run: relformer evaluate runs/.../STAMP data.test.max_length=40")
    with ending_at_once():
        from relformer.training.evaluate import evaluate_run

    evaluate_run(arguments[0], arguments[1:])


def translate(arguments: list[str]) -> None:
    if not arguments or arguments[0].startswith("-") or "=" in arguments[0]:
        raise UserError("translate needs a run: relformer translate runs/.../STAMP input=test.en output=test.de")
    with ending_at_once():
        from relformer.translation import translate_run

    translate_run(arguments[0], arguments[1:])


def import_model(arguments: list[str]) -> None:
    with ending_at_once():
        from relformer.hf.command import import_command

    import_command(arguments)


def export(arguments: list[str]) -> None:
    if not arguments or arguments[0].startswith("-") or "=" in arguments[0]:
        raise UserError("export needs a run: relformer export runs/.../STAMP to=FOLDER")
    if any(argument.startswith("hf=") for argument in arguments):
        with ending_at_once():
            from relformer.hf.command import export_command as export_hf

        export_hf(arguments[0], arguments[1:])
        return
    with ending_at_once():
        from relformer.export.command import export_command

    export_command(arguments)


def data(arguments: list[str]) -> None:
    with ending_at_once():
        from relformer.config import compose, plain, prepare, slots_chosen
        from relformer.data.survey import survey

    prepare()
    config = compose(slots_chosen(arguments))
    survey(plain(config, "data")["data"], config.seed, config.trainer.max_steps)


def compare(arguments: list[str]) -> None:
    if not arguments:
        raise UserError("compare needs runs, or folders that hold some: relformer compare runs/reverse-*")
    with ending_at_once():
        from relformer.evaluation.compare import compare_command

    compare_command(arguments)


def published(arguments: list[str]) -> None:
    from relformer.published.command import published_command

    published_command(arguments)


def sweep(arguments: list[str]) -> None:
    with ending_at_once():
        from relformer.sweeps.status import sweep_command

    sweep_command(arguments)


def figure(arguments: list[str]) -> None:
    with ending_at_once():
        from relformer.evaluation.figure import figure_command

    figure_command(arguments)


def probe(arguments: list[str]) -> None:
    if not arguments:
        raise UserError("probe needs a run: relformer probe runs/.../STAMP set=test_iid distances=1,2,4")
    with ending_at_once():
        from relformer.training.order_probe import probe_command

    probe_command(arguments)


def report(arguments: list[str]) -> None:
    if len(arguments) != 1:
        raise UserError("report needs one run, or one folder that holds some: relformer report runs/multirun/STAMP")
    with ending_at_once():
        from relformer.report.pages import report as write_report

    print(f"page        {write_report(Path(arguments[0]))}")


def benchmark(arguments: list[str]) -> None:
    with ending_at_once():
        from relformer.benchmark import benchmark_command

    benchmark_command(arguments)


def encodings(arguments: list[str]) -> None:
    from relformer.catalogue import print_catalogue, show
    from relformer.registry import load_plugins

    load_plugins()
    match arguments:
        case []:
            print_catalogue()
        case ["show", name]:
            show(name)
        case ["check", target, *options]:
            check_one(target, options)
        case _:
            raise UserError(f"no command encodings {' '.join(arguments)!r}\n{USAGE}")


def check_one(target: str, options: list[str]) -> None:
    """Check a registered encoding, or the class at `module:Class`, and say in words what is wrong."""
    from omegaconf import OmegaConf

    from relformer.registry import located
    from relformer.testing import check_encoding

    name = target.replace(":", ".")
    encoding = located(target.rpartition(":")[2], name).cls if ":" in target else target
    faults = check_encoding(encoding, OmegaConf.to_container(OmegaConf.from_dotlist(options)))  # type: ignore[arg-type]
    if faults:
        raise UserError(f"{target} does not behave as an encoding must:\n  " + "\n  ".join(faults))
    print(f"{target}: nothing wrong found")


COMMANDS: dict[str, Callable[[list[str]], None]] = {
    "train": train,
    "evaluate": evaluate,
    "translate": translate,
    "import": import_model,
    "export": export,
    "data": data,
    "report": report,
    "compare": compare,
    "published": published,
    "sweep": sweep,
    "figure": figure,
    "probe": probe,
    "benchmark": benchmark,
    "encodings": encodings,
}

WITH_HELP = {"train", "compare", "published", "figure", "probe"}
"""Commands that print a help of their own."""
RUN_MODELS = {"train", "evaluate", "translate", "export", "probe", "benchmark"}

os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # our messages for configuration, full tracebacks for faults
