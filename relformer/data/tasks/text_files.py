"""The user's own parallel text: files of lines, TSV or JSONL, plain or compressed."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from relformer.data.encoded import Corpus
from relformer.data.text.corpus import text_corpus
from relformer.data.text.options import TextSource
from relformer.data.text.pairs import Files, Reading, open_pairs
from relformer.data.vocabulary import Coder
from relformer.errors import OptionError
from relformer.registry import tasks


@tasks.register("text_files", describes="parallel text: files of lines, TSV or JSONL")
@dataclass(kw_only=True)
class TextFiles(TextSource):
    """Pairs from files. Each of `train`, `val`, `test` has `source` and `target` (files of lines) or `file` (both sides
    in one); each is a file, a glob or a list of them, a list being several corpora.

    Options:
        path: folder that file names start from; the working directory where it is null.
        train, val, test: the files of `train`, `val_iid` and `test_iid`.
        tests: more test sets, by name: {2017: {source: ..., target: ...}} makes `test_2017`.
        format: of the files; auto takes two files as lines, and one by its suffix or its first line.
        source_column, target_column: name or number (from 1) of a TSV column, key of JSONL (dotted: translation.en);
            null for both is source and target, and in a TSV without header its only two columns.
        charset: of all files.
        temperature: mix several training corpora by size^(1/temperature), where no train.weights are given.
    """

    path: str | None = None
    train: Files = Files()
    val: Files = Files()
    test: Files = Files()
    tests: Any = None
    format: Literal["auto", "parallel", "tsv", "jsonl"] = "auto"
    source_column: str | None = None
    target_column: str | None = None
    charset: str = "utf-8"
    temperature: float | None = None

    def corpus(self, coders: tuple[Coder, Coder] | None = None, train: bool = True) -> Corpus:
        own = named(self.val) and named(self.test)
        if not named(self.train) and (train or not own):
            rule = "names no file; give data.train.source and data.train.target, or data.train.file (TSV, JSON lines)"
            raise OptionError("train", None, rule if train else f"{rule}, or both data.val and data.test")
        self.refuse_sets()
        folder = None if self.path is None else Path(self.path)
        reading = Reading(folder, self.format, self.source_column, self.target_column, self.charset, self.on_bad)
        files = {"train": self.train, "val_iid": self.val, "test_iid": self.test}
        if not train and own:
            del files["train"]
        files |= {f"test_{name}": Files(**each) for name, each in (self.tests or {}).items()}
        options = {"val_iid": "data.val", "test_iid": "data.test", "train": "data.train"}
        found = {
            name: [
                corpus.kept()
                for corpus in open_pairs(each, reading, options.get(name) or f"data.tests.{name.removeprefix('test_')}")
            ]
            for name, each in files.items()
            if named(each)
        }
        return text_corpus(self, found, coders, self.train.weights, self.temperature)  # type: ignore[arg-type]

    def refuse_sets(self) -> None:
        """Raises OptionError where a set can't be called so, is no mapping, or has what only training has."""
        tests = {} if self.tests is None else self.tests
        if not isinstance(tests, dict) or not all(isinstance(each, dict) for each in tests.values()):
            raise OptionError("tests", tests, "must be sets by name, such as {2017: {source: a.en, target: a.de}}")
        for name, each in tests.items():
            if name == "iid" or not re.fullmatch(r"\w[\w-]*", str(name)):
                rule = "is no name of a further set: letters, digits, _ and -, but not iid, which is data.test"
                raise OptionError("tests", name, rule)
            if odd := set(map(str, each)) - {"source", "target", "file"}:
                raise OptionError(f"tests.{name}", each, f"has {min(odd)!r}; it takes source and target, or file")
        for name in ("val", "test"):
            if (weights := getattr(self, name).weights) is not None:
                raise OptionError(f"{name}.weights", weights, "is for training alone: every pair of a set counts once")


def named(files: Files) -> bool:
    return any((files.source, files.target, files.file))
