"""Decoding: greedy search."""

from relformer.decoding.greedy import greedy

__all__ = ["greedy"]
