"""A task of one's own: the README's, and one that is none."""

from pathlib import Path

import pytest

from relformer.config import plain
from relformer.data.corpus import build_corpus, build_task
from relformer.errors import UserError
from relformer.registry import tasks
from tests.config.composed import composed

README = Path(__file__).parents[2] / "README.md"


def test_the_readme_s_task_is_one() -> None:
    code = README.read_text(encoding="utf-8").split("# mine/tasks.py\n")[1].split("```")[0]
    exec(code, {"__name__": "mine.tasks"})
    try:
        options = plain(composed("data=reverse", "data.examples=50", "data.examples_per_length=5"), "data")["data"]
        corpus = build_corpus(options | {"name": "shift"})
    finally:
        tasks.forget("shift")
    assert {"train", "val_iid", "test_longer"} <= set(corpus.sets)
    letters = corpus.source_vocabulary.tokens[-26:]
    for source, target in zip(corpus.sets["train"].sources, corpus.sets["train"].targets, strict=True):
        first, second = ([corpus.source_vocabulary.tokens[n] for n in side] for side in (source, target))
        assert second == [letters[(letters.index(letter) + 1) % 26] for letter in first]


def test_a_class_that_is_no_task_is_named() -> None:
    tasks.register("none_at_all")(object)
    try:
        with pytest.raises(UserError, match=r"data=none_at_all: object is not a subclass of relformer.data.task.Task"):
            build_task({"name": "none_at_all", "seed": 0})
    finally:
        tasks.forget("none_at_all")
