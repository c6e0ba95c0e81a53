"""Models of the Hugging Face hub in and out: T5, Marian and BART become runs, and a T5 of ours becomes theirs.

What has no place on the other side ends in a sentence that names it. Needs the extra `hf`, which is imported when a
model is asked for.
"""

from relformer.hf.exporting import to_hf_t5
from relformer.hf.importing import from_hf

__all__ = ["from_hf", "to_hf_t5"]
