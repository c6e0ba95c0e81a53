"""`relformer probe RUN`: how much a trained model's loss and output depend on the order of the source."""

from __future__ import annotations

import time
from dataclasses import asdict, fields

import torch
from rich.console import Console
from rich.table import Table

from relformer.arguments import Arguments
from relformer.config import prepare
from relformer.data.corpus import common_options
from relformer.errors import OptionError, UserError
from relformer.evaluation.word_order import OrderEffect, order_effects
from relformer.files import write_json
from relformer.redaction import redact_argument
from relformer.registry import did_you_mean
from relformer.training.evaluate import free, readable_corpus
from relformer.training.trained import open_run


def probe_command(arguments: list[str]) -> list[OrderEffect]:
    """`relformer probe RUN [set=test_iid] [examples=1000] [distances=1,2,4,8] [overrides as for evaluate]`.

    Prints a table and writes `order.json` to a new folder under `<run>/evaluations`.

    Raises:
        UserError: no such run or set, or options that make no sense.
    """
    parser = Arguments(prog="relformer probe", allow_abbrev=False)
    parser.add_argument("run", help="a run directory, or a checkpoint")
    parser.add_argument("--set", default="test_iid", help="the evaluation set whose sources are reordered")
    parser.add_argument("--examples", type=int, default=1000, help="how many of it, from its beginning")
    parser.add_argument("--distances", default="1,2,4,8", help="between the two tokens that are swapped")
    parser.add_argument("--trust-checkpoint", action="store_true")
    parser.add_argument("overrides", nargs="*", help="data.KEY=VALUE and the like, as for evaluate")
    options = parser.parsed(arguments, overrides=True)
    distances = whole_numbers(options.distances)
    if options.examples < 1:
        raise OptionError("examples", options.examples, "must be at least 1")
    prepare()
    trained = open_run(options.run, [*options.overrides, *["--trust-checkpoint"] * options.trust_checkpoint])
    corpus = readable_corpus(trained)
    known = [name for kind in ("val", "test") for name in corpus.evaluation_sets(kind)]
    if options.set not in known:
        raise UserError(f"no set {options.set!r}{did_you_mean(options.set, known)}\n  sets: {', '.join(known)}")
    accelerated = torch.cuda.is_available() and trained.content["trainer"]["accelerator"] != "cpu"
    model = trained.module.model.eval().to("cuda" if accelerated else "cpu")
    frame = common_options(trained.content["data"]).frame
    found = list(order_effects(model, corpus.sets[options.set], frame, distances, options.examples))
    if not found:
        raise UserError(f"no example of {options.set} has two different tokens to reorder")
    print_effects(found, f"{trained.title}, {options.set}")
    path = free(trained.directory / "evaluations" / time.strftime("%Y%m%d-%H%M%S")) / "order.json"
    write_json(
        path,
        {
            "set": options.set,
            "overrides": list(map(redact_argument, options.overrides)),
            "changes": [asdict(each) for each in found],
        },
    )
    print(f"figures     {path}")
    return found


def whole_numbers(text: str) -> list[int]:
    """`1,2,4` as numbers. Raises OptionError for anything else, and for numbers below 1."""
    parts = [part.strip() for part in text.strip("[]").split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise OptionError("distances", text, "is not a list of whole numbers from 1 on, such as 1,2,4")
    return sorted({int(part) for part in parts})


def print_effects(found: list[OrderEffect], title: str) -> None:
    table = Table(title=title, caption="teacher-forced on the true targets; loss and KL in nats a token")
    names = [field.name for field in fields(OrderEffect)]
    for name in names:
        heading = "output KL" if name == "divergence" else name.replace("_", " ")
        table.add_column(heading if name != "change" else "source", justify="left" if name == "change" else "right")
    for each in found:
        values = [getattr(each, name) for name in names]
        table.add_row(*(f"{value:.3f}" if isinstance(value, float) else str(value) for value in values))
    Console(width=None if Console().is_terminal else 120).print(table)
