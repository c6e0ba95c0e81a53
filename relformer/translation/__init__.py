"""`relformer translate`: lines in, lines out, with a trained run."""

from relformer.translation.command import translate_run
from relformer.translation.translator import Translation, Translator

__all__ = ["Translation", "Translator", "translate_run"]
