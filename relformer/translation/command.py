"""Streaming lines through one or several translators, in order, and writing what is done whatever happens."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import TextIO

import torch

from relformer.config import prepare
from relformer.data.text.lines import read_blocks
from relformer.data.text.notes import Notes
from relformer.decoding import DecodingOptions
from relformer.errors import OptionError, UserError
from relformer.files import replacing
from relformer.training.trained import TrainedRun, open_run
from relformer.translation.options import TranslateOptions, parsed
from relformer.translation.translator import Translation, Translator

logger = logging.getLogger("relformer")
Pool = tuple[int, list[str]]
"""The number of the first line, and lines that follow each other."""


def translate_run(run: str, overrides: list[str]) -> None:
    """Translate `input` line by line to `output` with a run: N lines in, N lines out, empty ones included.

    Raises:
        UserError: no such run, options that don't fit, an input that can't be read, a line that can't be translated.
    """
    prepare()
    options, rest = parsed(overrides)
    for name, stream in (("input", sys.stdin), ("output", sys.stdout)):
        if getattr(options, name) == "-" and stream is None:
            raise UserError(f"{name}=- is the standard {name}, which is closed; name a file")
    trained = open_run(run, rest)
    n_best = DecodingOptions(**trained.content["decoding"]).n_best
    device_of(options.accelerator, options.devices - 1)
    if n_best > 1 and options.format == "text":
        raise OptionError("format", "text", f"has one line a line, but decoding.n_best={n_best}; use tsv or jsonl")
    interactive = options.input == "-" and sys.stdin.isatty()
    size = 1 if interactive else options.pool
    notes, tally = Notes(), Tally()
    lines = typed_lines() if interactive else given_lines(options, notes)
    with written(options.output) as out:
        try:
            for number, line, found in translated(lines, trained, run, rest, options, size):
                out.write(rendered(options.format, number, line, found))
                tally.count(found, len(line) > 0 and not line.isspace())
                if interactive or tally.lines % options.pool == 0:
                    out.flush()
                    tally.say(sys.stderr.isatty() and not interactive)
        except KeyboardInterrupt:
            out.flush()
            logger.warning("interrupted; %s lines are translated", f"{tally.lines:,}")
            raise
    for note in notes.lines():
        logger.info("input: %s", note)
    tally.say(not interactive)


def given_lines(options: TranslateOptions, notes: Notes) -> Iterator[str]:
    """The lines of a file or pipe.

    Raises:
        UserError: the first line that can't be read; none is left out, since line n of the output is that of line n.
    """
    path = Path("/dev/stdin") if options.input == "-" else Path(options.input)
    try:
        for block in read_blocks(path, options.charset, notes):
            for number, text in enumerate(block.texts, block.first):
                if fault := block.faults.get(number):
                    raise UserError(f"{path}:{number}: {fault.message}")
                yield text
    except UserError as error:  # which is of the data's reader, where the option has another name
        raise UserError(str(error).replace("data.charset", "charset")) from None


def typed_lines() -> Iterator[str]:
    """What a person types, with a prompt that is no part of the output."""
    while True:
        print("> ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            return
        yield line.rstrip("\r\n")


def translated(
    lines: Iterator[str], trained: TrainedRun, run: str, overrides: list[str], options: TranslateOptions, size: int
) -> Iterator[tuple[int, str, list[Translation]]]:
    """Number, source and translations of each line, in order."""
    if options.devices == 1:
        translator = Translator(trained, device_of(options.accelerator, 0), options.max_tokens)
        for first, pool in pools(lines, size):
            yield from zip(range(first, first + len(pool)), pool, translator.translate(pool, first), strict=True)
        return
    counter = get_context("spawn").Value("i", 0)
    with ProcessPoolExecutor(
        options.devices, get_context("spawn"), start_worker, (counter, run, overrides, options)
    ) as workers:
        waiting: deque[tuple[Pool, Future[list[list[Translation]]]]] = deque()
        try:
            for first, pool in pools(lines, size):
                waiting.append(((first, pool), workers.submit(work, first, pool)))
                if len(waiting) > 2 * options.devices:
                    yield from finished(*waiting.popleft())
            while waiting:
                yield from finished(*waiting.popleft())
        except BrokenProcessPool:
            raise UserError(
                f"a process of devices={options.devices} died (a machine short of memory kills the largest); lower "
                "devices or max_tokens"
            ) from None
        except BaseException:
            workers.shutdown(cancel_futures=True)
            raise


def pools(lines: Iterator[str], size: int) -> Iterator[Pool]:
    first = 1
    while pool := list(islice(lines, size)):
        yield first, pool
        first += len(pool)


def finished(pool: Pool, future: Future[list[list[Translation]]]) -> Iterator[tuple[int, str, list[Translation]]]:
    first, lines = pool
    return zip(range(first, first + len(lines)), lines, future.result(), strict=True)


def start_worker(counter: object, run: str, overrides: list[str], options: TranslateOptions) -> None:
    """One process a device; each takes the next one."""
    global _translator
    with counter.get_lock():  # type: ignore[attr-defined]
        number = counter.value  # type: ignore[attr-defined]
        counter.value += 1  # type: ignore[attr-defined]
    torch.set_num_threads(max(1, torch.get_num_threads() // options.devices))
    prepare()
    _translator = Translator(open_run(run, overrides), device_of(options.accelerator, number), options.max_tokens)


def work(first: int, lines: list[str]) -> list[list[Translation]]:
    return _translator.translate(lines, first)


_translator: Translator


def device_of(accelerator: str, number: int) -> torch.device:
    """The device of a process: the GPUs where there are any and no CPU was asked for.

    Raises:
        OptionError: a GPU that is not there.
    """
    gpus = torch.cuda.device_count()
    if accelerator == "cpu" or (accelerator == "auto" and not gpus):
        return torch.device("cpu")
    if number >= gpus:
        raise OptionError("devices", number + 1, f"is more than the {gpus} GPUs there are; or set accelerator=cpu")
    return torch.device("cuda", number)


def rendered(form: str, number: int, line: str, found: list[Translation]) -> str:
    if form == "text":
        return f"{found[0].text if found else ''}\n"
    if form == "tsv":
        rows = [f"{number}\t{rank}\t{each.normalised:.4f}\t{one_cell(each.text)}" for rank, each in enumerate(found, 1)]
        return "\n".join(rows or [f"{number}\t1\t\t"]) + "\n"
    return json.dumps({"line": number, "source": line, "outputs": list(map(asdict, found))}, ensure_ascii=False) + "\n"


def one_cell(text: str) -> str:
    return text.replace("\t", " ")


@contextmanager
def written(output: str) -> Iterator[TextIO]:
    """Standard output, or a file that has its name only when it is closed: whole, or as far as an interrupt let it.
    What is no regular file, such as a named pipe, and what /dev names are written to as they stand; a link stays one.
    """
    if output == "-":
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
        yield sys.stdout
        sys.stdout.flush()
        return
    interrupt = None
    path = Path(os.path.realpath(output))
    if path.is_dir():
        raise UserError(f"output={output} is a folder; name a file")
    special = output.startswith("/dev/") or (path.exists() and not path.is_file())
    place = nullcontext(Path(output)) if special else replacing(path)
    try:
        with place as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
            try:
                yield file
            except KeyboardInterrupt as error:
                interrupt = error
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UserError(f"output={output} can't be written: {error.strerror}") from None
    if interrupt is not None:
        raise interrupt


class Tally:
    """What was done so far."""

    def __init__(self) -> None:
        self.began, self.lines, self.blank, self.limited = time.monotonic(), 0, 0, 0

    def count(self, found: list[Translation], text: bool) -> None:
        self.lines += 1
        self.blank += not text
        self.limited += bool(found) and found[0].reached_limit

    def say(self, aloud: bool) -> None:
        if not aloud:
            return
        blank = f", {self.blank:,} of them blank" if self.blank else ""
        limit = f"; {self.limited:,} outputs reached the limit" if self.limited else ""
        rate = self.lines / max(time.monotonic() - self.began, 1e-9)
        logger.info("translated %s lines%s, %.3g a second%s", f"{self.lines:,}", blank, rate, limit)
