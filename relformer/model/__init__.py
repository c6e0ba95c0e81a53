"""The encoder-decoder Transformer: layers, stacks, cache, and `build_model`."""

from relformer.model.cache import Cache
from relformer.model.options import ModelOptions
from relformer.model.seq2seq import Seq2Seq, build_model, positions_needed

__all__ = ["Cache", "ModelOptions", "Seq2Seq", "build_model", "positions_needed"]
