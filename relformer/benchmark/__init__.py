"""`relformer benchmark`: speed against other implementations, in one interleaved run."""

from relformer.benchmark.decode import benchmark_decode

__all__ = ["benchmark_decode"]
