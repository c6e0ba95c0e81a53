"""Decoding: greedy search, beam search and sampling, through one entry: `decode`."""

from relformer.decoding.greedy import greedy
from relformer.decoding.hypothesis import Hypothesis
from relformer.decoding.options import DecodingOptions
from relformer.decoding.search import decode

__all__ = ["DecodingOptions", "Hypothesis", "decode", "greedy"]
