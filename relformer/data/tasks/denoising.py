"""Span corruption of plain text (Raffel et al. 2020, arXiv:1910.10683): what was hidden, from what was left."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, cast

from relformer.data.encoded import Corpus
from relformer.data.text.corpus import gathered, hold_out, trained
from relformer.data.text.corrupted import Corrupted, SentinelTokenizer, pieces
from relformer.data.text.manual import paragraphs
from relformer.data.text.notes import Notes
from relformer.data.text.options import TextSource
from relformer.data.text.plain import open_plain
from relformer.data.text.reading import Reading
from relformer.data.text.span_corruption import SpanCorruption, longest
from relformer.data.text.store import Pair, Pairs
from relformer.data.text.tokenizer import Tokenizer
from relformer.data.vocabulary import Coder
from relformer.errors import OptionError
from relformer.registry import tasks


@tasks.register("denoising", describes="plain text to the spans hidden in it (T5's span corruption)")
@dataclass(kw_only=True)
class Denoising(TextSource):
    """Pieces of text with spans hidden, other ones each epoch; validation and test texts are held out.

    Options:
        path: folder that file names start from; the working directory where it is null.
        files: a file of plain text, a glob, or a list; null is the manual that comes with Python.
        unit: what one text is, a line or a paragraph between blank lines.
        charset: of all files.
        piece: longer texts are cut into pieces of at most so many tokens.
        noise_share, mean_span, sentinels: the share of tokens hidden, in spans of how many, and for how many spans at
            most.
    """

    instead: ClassVar[str] = "give more text"

    path: str | None = None
    files: Any = None
    unit: Literal["line", "paragraph"] = "line"
    charset: str = "utf-8"
    piece: int = 128
    noise_share: float = 0.15
    mean_span: float = 3.0
    sentinels: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        self.corruption = SpanCorruption(self.noise_share, self.mean_span, self.sentinels)
        if not 2 <= self.piece <= longest(self.corruption):
            rule = f"must be from 2 to {longest(self.corruption)}, for which data.sentinels={self.sentinels} suffice"
            raise OptionError("piece", self.piece, rule)
        for name in ("join", "max_length"):
            if getattr(self, name) is not None:
                raise OptionError(name, getattr(self, name), "is for pairs; long texts are cut by data.piece")

    def corpus(self, coders: tuple[Coder, Coder] | None = None, train: bool = True) -> Corpus:
        given = SentinelTokenizer(self.text_tokenizer(), self.sentinels) if coders is None else coders[0]
        coder = cast(SentinelTokenizer, given)
        texts, notes, _ = gathered(self, "train", self.texts(), coder.text, coder.text)
        sets = {"train": texts}
        hold_out(self, sets, notes)
        made = {
            name: Corrupted(pieces(texts, self.piece), self.corruption, coder.sentinels, self.seed)
            for name, texts in sets.items()
        }
        return Corpus(coder, coder, made, notes)

    def text_tokenizer(self) -> Tokenizer:
        if self.tokenizer.file is not None:
            return Tokenizer.load(self.tokenizer.file)
        return trained(self.tokenizer, self.texts(), ("source",))

    def texts(self) -> list[Pairs]:
        if self.files is None:
            return [Manual()]
        reading = Reading(None if self.path is None else Path(self.path), charset=self.charset, on_bad=self.on_bad)
        return [Plain(each.kept()) for each in open_plain(self.files, reading, "data.files", self.unit)]


class Text(NamedTuple):
    """A text as a pair with an empty target."""

    where: str
    source: str
    target: str = ""
    positions: None = None


class Plain:
    """Files of plain text."""

    def __init__(self, files: Any) -> None:
        self.files, self.name = files, files.name

    def digest(self) -> str:
        return self.files.digest()

    def read(self, notes: Notes) -> Iterator[Pair]:
        return (Text(text.where, text.text) for text in self.files.read(notes))


class Manual:
    """The manual that comes with Python."""

    name = "Python's manual"

    def digest(self) -> str:
        return blake2b("\n".join(paragraphs()).encode(), digest_size=20).hexdigest()

    def read(self, notes: Notes) -> Iterator[Pair]:
        return (Text(f"paragraph {number}", text) for number, text in enumerate(paragraphs(), 1))
