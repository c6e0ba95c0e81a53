"""The line that an unequal pair of files is blamed on, against where a line was really lost."""

import math
import random
from pathlib import Path

import pytest

from relformer.data.text.alignment import suspicion
from tests.data.text.corpora import write


def sentences(count: int, seed: int) -> tuple[list[str], list[str]]:
    """Lengths as of a language and its translation: log-normal, at a ratio of 1.1 with a spread of a fifth."""
    draw = random.Random(seed)
    lengths = [max(2, round(math.exp(draw.gauss(4, 0.5)))) for _ in range(count)]
    return ["a" * n for n in lengths], ["b" * max(1, round(n * 1.1 * math.exp(draw.gauss(0, 0.2)))) for n in lengths]


def blamed(folder: Path, source: list[str], target: list[str]) -> str:
    write(folder, train_en="".join(f"{line}\n" for line in source), train_de="".join(f"{line}\n" for line in target))
    return suspicion(folder / "train.en", folder / "train.de", "utf-8")


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("lost", [1, 3])
def test_a_loss_is_placed_within_a_few_lines(tmp_path: Path, seed: int, lost: int) -> None:
    source, target = sentences(2_000, seed)
    at = random.Random(seed).randrange(20, 1_980)
    del target[at : at + lost]
    message = blamed(tmp_path, source, target)
    start = "; the lengths of the sides stop matching at train.en:"
    assert message.startswith(start)
    assert abs(int(message.removeprefix(start)) - (at + 1)) <= 10


def test_a_loss_at_the_end_is_called_one(tmp_path: Path) -> None:
    source, target = sentences(500, 0)
    assert blamed(tmp_path, source[:-2], target) == "; the last 2 of train.de look like the surplus"
    assert blamed(tmp_path, source[1:], target) == "; the lengths of the sides stop matching at train.de:1"


def test_an_odd_line_where_the_sides_part_is_named(tmp_path: Path) -> None:
    source, target = sentences(500, 0)
    source.insert(300, "")
    assert blamed(tmp_path, source, target) == (
        "; train.en:301 is empty, and the lengths of the sides stop matching there"
    )


def test_where_lengths_say_nothing_an_odd_line_is_named_or_none(tmp_path: Path) -> None:
    same = ["same"] * 100
    assert blamed(tmp_path, same, same[1:]) == ""
    odd = [*same[:40], "s\u2028", *same[40:]]
    assert blamed(tmp_path, odd, same).startswith("; ")
    draw = random.Random(0)
    noise = ["x" * draw.randint(1, 100) for _ in range(201)]
    other = ["x" * draw.randint(1, 100) for _ in range(200)]
    other[50] = "x\u2028x"
    assert (
        blamed(tmp_path, noise, other) == "; the first line that looks odd is train.de:51 holds U+2028 (line separator)"
    )
