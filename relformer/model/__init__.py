"""The encoder-decoder Transformer: layers, stacks, cache, and `build_model`."""

from relformer.model.options import ModelOptions
from relformer.model.seq2seq import Seq2Seq, build_model, positions_needed
from relformer.model.stack import Cache

__all__ = ["Cache", "ModelOptions", "Seq2Seq", "build_model", "positions_needed"]
