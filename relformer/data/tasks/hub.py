"""Data sets of the Hugging Face hub, and local files in their formats (extra: `hub`)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from relformer.data.encoded import Corpus
from relformer.data.text.corpus import text_corpus
from relformer.data.text.hub import HubPairs, refuse
from relformer.data.text.notes import Notes
from relformer.data.text.options import TextSource
from relformer.data.text.store import Pair, Pairs
from relformer.data.vocabulary import Coder
from relformer.errors import OptionError
from relformer.registry import tasks


@tasks.register("hub", describes="pairs from the Hugging Face hub, a saved data set or parquet files")
@dataclass(kw_only=True)
class Hub(TextSource):
    """Pairs of two columns, or of two languages of a column `translation`.

    Options:
        path: a name on the hub, a folder of `save_to_disk`, a parquet or arrow file, or a folder of such files.
        config: the data set's configuration, such as de-en.
        revision: branch, tag or commit, for data that must not change.
        train_split, val_split, test_split: names of splits; a null one is held out from training.
        source_column, target_column: columns, or languages within `translation`.
    """

    instead: ClassVar[str] = "name data.val_split and data.test_split"

    path: str | None = None
    config: str | None = None
    revision: str | None = None
    train_split: str | None = "train"
    val_split: str | None = "validation"
    test_split: str | None = "test"
    source_column: str = "source"
    target_column: str = "target"

    def corpus(self, coders: tuple[Coder, Coder] | None = None, train: bool = True) -> Corpus:
        if not self.path:
            raise OptionError("path", self.path, "names no data set: one on the hub, a folder, or a parquet file")
        splits = {"train": self.train_split, "val_iid": self.val_split, "test_iid": self.test_split}
        found: dict[str, list[Pairs]] = {
            name: [Split(self, split)] for name, split in splits.items() if split is not None or name == "train"
        }
        if not train and len(found) == len(splits):
            del found["train"]
        return text_corpus(self, found, coders)  # type: ignore[arg-type]


class Row(NamedTuple):
    """One row as a pair."""

    where: str
    source: str
    target: str
    positions: None = None


class Split:
    """One split of a data set."""

    def __init__(self, options: Hub, split: str | None) -> None:
        self.options, self.split = options, split
        self.name = f"{options.path} {split or ''}".rstrip()

    def open(self, notes: Notes | None = None) -> HubPairs:
        options, skip = self.options, notes is not None and self.options.on_bad == "skip"

        def count(message: str) -> None:
            assert notes is not None
            notes.total += 1
            notes.count("row that is not two texts left out", message, dropped=True)

        columns = (options.source_column, options.target_column)
        on_bad = count if skip else refuse
        return HubPairs(str(options.path), options.config, self.split, options.revision, columns, on_bad)

    def digest(self) -> str:
        return f"{self.open().digest()} {self.options.on_bad}"

    def read(self, notes: Notes) -> Iterator[Pair]:
        for row, source, target in self.open(notes):
            notes.total += 1
            if not source.strip() or not target.strip():
                notes.count("pair with an empty side left out", f"{self.name}: row {row}", dropped=True)
            else:
                yield Row(f"{self.name}: row {row}", source, target)
