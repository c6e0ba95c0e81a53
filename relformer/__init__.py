"""relformer: find out what a positional encoding does."""

__version__ = "0.1.0"
