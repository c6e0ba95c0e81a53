"""`relformer benchmark`: what an encoding, a step, a loss or a decoded token costs, against other implementations."""

from relformer.benchmark.command import benchmark_command

__all__ = ["benchmark_command"]
