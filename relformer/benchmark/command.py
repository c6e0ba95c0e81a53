"""The kinds of `relformer benchmark`, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from relformer.benchmark.attention import benchmark_attention
from relformer.benchmark.decode import benchmark_decode
from relformer.benchmark.epoch import benchmark_epoch
from relformer.benchmark.loss import benchmark_loss
from relformer.benchmark.step import benchmark_step
from relformer.errors import UserError
from relformer.registry import did_you_mean

KINDS: dict[str, Callable[[list[str]], Sequence[object]]] = {
    "attention": benchmark_attention,
    "step": benchmark_step,
    "decode": benchmark_decode,
    "loss": benchmark_loss,
    "epoch": benchmark_epoch,
}


def benchmark_command(arguments: list[str]) -> Sequence[object]:
    """Run one kind; its rows, as they stand in the CSV.

    Raises:
        UserError: an unknown kind, or options that are unknown or make no sense.
    """
    kind = arguments[0] if arguments else ""
    if kind not in KINDS:
        said = f"no benchmark {kind!r}{did_you_mean(kind, KINDS)}" if kind else "benchmark needs to know of what"
        raise UserError(f"{said}\n  relformer benchmark {'|'.join(KINDS)} [options]: encodings=t5,alibi out=cost.csv")
    return KINDS[kind](arguments[1:])
