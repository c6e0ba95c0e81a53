"""Transformers from source to target: layers, stacks, cache, and `build_model`."""

from relformer.model.building import build_model, positions_needed
from relformer.model.cache import Cache
from relformer.model.decoder_only import DecoderOnly
from relformer.model.options import ModelOptions
from relformer.model.seq2seq import EncoderDecoder, Seq2Seq

__all__ = ["Cache", "DecoderOnly", "EncoderDecoder", "ModelOptions", "Seq2Seq", "build_model", "positions_needed"]
