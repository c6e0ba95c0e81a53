"""What each generated task answers, against a computation of another kind, and the examples its papers print."""

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

from relformer.data.tasks.expressions import count_expressions, expression
from relformer.registry import tasks
from tests.data.test_generated import GENERATED, LENGTHS, sets

Answer = Callable[[str], str]


def bits_lowest_first(text: str) -> int:
    return int(text[::-1], 2)


def by_operator(text: str) -> str:
    operator = "+" if "+" in text else "*"
    a, b = map(bits_lowest_first, text.split(operator))
    return f"{eval(f'{a}{operator}{b}'):b}"[::-1]


def solutions(text: str) -> str:
    left, right = text.split("=")
    return "".join(x for x in "01234" if (eval(left.replace("x", x)) - int(right)) % 5 == 0)


def missing(text: str) -> str:
    half = len(text.removesuffix("e")) // 2
    return next(a if b == "?" else b for a, b in zip(text[:half], text[half:], strict=False) if "?" in (a, b))


def stack_after(text: str) -> str:
    """Read from the last action to the first: what is popped later was never left."""
    pops, left = 0, ""
    for token in reversed(text.replace("push", "P").replace("pop", "-").replace("P0", "o").replace("P1", "i")):
        if token == "-":
            pops += 1
        elif pops:
            pops -= 1
        else:
            left += token.replace("o", "0").replace("i", "1")
    return left or "e"


def walked(text: str) -> str:
    place = 0
    for step in text:
        place += {"l": 4, "s": 0, "r": 6}[step]
    return str(place % 5)


def root(text: str) -> str:
    number = int(text, 2)
    whole = next(i for i in itertools.count() if (i + 1) ** 2 > number) if number < 10**6 else int(number**0.5)
    return f"{whole:b}".zfill(-(-len(text) // 2))


def parity_of(text: str, pattern: tuple[str, ...]) -> str:
    return "odd" if sum(text[i:].startswith(pattern) for i in range(len(text))) % 2 else "even"


ANSWERS: dict[str, Answer] = {
    "addition": lambda text: str(eval(text)),
    "binary_addition": by_operator,
    "binary_multiplication": by_operator,
    "compute_sqrt": root,
    "copy": str,
    "cycle_navigation": walked,
    "duplicate": lambda text: f"{text}{text}",
    "even_pairs": lambda text: parity_of(text, ("01", "10")),
    "missing_duplicate_string": missing,
    "modular_arithmetic": lambda text: str(eval(text) % 5),
    "modular_arithmetic_brackets": lambda text: str(eval(text) % 5),
    "odds_first": lambda text: "".join(sorted_by_place(text)),
    "order": lambda text: "yes" if text.find(text[-2]) < text.find(text[-1]) else "no",
    "parity": lambda text: parity_of(text, ("1",)),
    "recall": lambda text: text[text.index(text[-1]) + 1],
    "reverse": lambda text: "".join(reversed(text)),
    "solve_equation": solutions,
    "sort": lambda text: "".join(letter * text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"),
    "stack_manipulation": stack_after,
}
SHORT = {"left": "l", "stay": "s", "right": "r", "empty": "e"}
"""Tokens in one character where a task has longer ones."""


def sorted_by_place(text: str) -> list[str]:
    return [letter for _, letter in sorted(enumerate(text), key=lambda pair: pair[0] % 2)]


def joined(name: str, tokens: tuple[str, ...]) -> str:
    if name in ("recall", "order"):
        return "".join(token if len(token) == 1 or token in ("yes", "no") else as_character(token) for token in tokens)
    return "".join(SHORT.get(token, token) for token in tokens)


def as_character(token: str) -> str:
    return chr(0x4E00 + 1000 * "kvt".index(token[0]) + int(token[1:]))


@pytest.mark.parametrize("name", GENERATED)
def test_targets_are_what_another_computation_gives(name: str) -> None:
    for examples in sets(name, examples=600).values():
        for source, target in examples:
            assert joined(name, target) == ANSWERS[name](joined(name, source)), source


@pytest.mark.parametrize(
    ("name", "source", "target"),
    [
        ("even_pairs", "001110", "even"),
        ("even_pairs", "0101001", "odd"),
        ("parity", "1010100", "odd"),
        ("parity", "01111", "even"),
        ("binary_addition", "001+01101", "01011"),
        ("binary_addition", "1001+000001", "100101"),
        ("binary_multiplication", "001*01101", "0001101"),
        ("missing_duplicate_string", "01100?10", "1"),
        ("missing_duplicate_string", "1011?1e", "0"),
        ("stack_manipulation", "0110push1poppop", "110"),
        ("stack_manipulation", "110poppoppop", "e"),
        ("stack_manipulation", "1poppoppush0", "0"),
        ("modular_arithmetic", "1+2*3", "2"),
        ("modular_arithmetic", "1-1-1", "4"),
        ("modular_arithmetic", "0*1+4*3-2", "0"),
        ("odds_first", "aaabaa", "aaaaba"),
        ("compute_sqrt", "111", "10"),
    ],
)
def test_the_answers_here_are_those_of_the_papers(name: str, source: str, target: str) -> None:
    """What Deletang et al. print, but for words in place of classes and no padding."""
    assert ANSWERS[name](source) == target


@pytest.mark.parametrize("pad", [0, 13])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("negative", [0.0, 0.25, 1.0])
def test_addition_is_written_as_its_options_say(pad: int, reverse: bool, negative: float) -> None:
    made = sets("addition", pad=pad, reverse_digits=reverse, negative=negative)
    signs = []
    for source, target in made["train"] + made["test_longer"]:
        order = -1 if reverse else 1
        numbers = " ".join(source).split("+")
        texts = [each.replace(" ", "")[::order] for each in (*numbers, " ".join(target))]
        if pad:
            assert {len(text) for text in texts} == {pad}
        bare = [text.lstrip("#") if negative else text.lstrip("0") or "0" for text in texts]
        a, b, total = map(int, bare)
        assert bare == [str(a), str(b), str(total)] and a + b == total
        signs += [a < 0, b < 0]
    assert sum(signs) / len(signs) == pytest.approx(negative, abs=0.06)


def test_numbers_are_sorted_by_value() -> None:
    seen = set()
    for source, target in sets("sort", numbers=True)["train"]:
        numbers, ordered = ([int(n) for n in "".join(side).split(",")] for side in (source, target))
        assert ordered == sorted(numbers)
        seen |= set(numbers)
    assert {len(str(number)) for number in seen} == {2, 3, 4} and "".join(target) == ",".join(map(str, ordered))


def test_a_separator_stands_between_the_copies() -> None:
    for source, target in sets("duplicate", separator=True)["train"]:
        assert target == (*source, "<next>", *source)


def test_answers_of_two_kinds_are_about_equally_frequent() -> None:
    for name in ("parity", "even_pairs", "order", "missing_duplicate_string"):
        answers = [target[0] for _, target in sets(name, examples_per_length=200)["test_longer"]]
        assert answers.count(answers[0]) / len(answers) == pytest.approx(0.5, abs=0.05)


def distance(name: str, source: tuple[str, ...]) -> int:
    """Pairs back to the key asked for, or places between the two tokens asked about."""
    if name == "recall":
        return (len(source) + 1) // 2 - source.index(source[-1]) // 2 - 1
    return abs(source.index(source[-1]) - source.index(source[-2]))


@pytest.mark.parametrize("name", ["recall", "order"])
def test_distances_are_controlled(name: str) -> None:
    least = 0 if name == "recall" else 1
    for kind, low, high in (("beyond", 9, 16), ("trained", 1, 8), ("uniform", 1, 16)):
        made = sets(name, examples=4000, examples_per_length=500, distance=kind)
        for every in (made["train"], made["val_iid"], made["test_iid"]):
            assert {distance(name, source) for source, _ in every} == set(range(1, 9 - least))
        found = {distance(name, source) for source, _ in made["test_longer"]}
        assert found == set(range(low - least if low > 1 else 1, high + 1 - least))


@pytest.mark.parametrize(("length", "operators"), [(5, "+-"), (6, "+-*"), (7, "+-")])
def test_expressions_are_counted(length: int, operators: str) -> None:
    """By drawing until no new one comes."""
    rng = random.Random(0)
    drawn = {expression(rng, length, operators)[0] for _ in range(6000)}
    assert len(drawn) == count_expressions(length, len(operators))


@pytest.mark.parametrize("name", [n for n in GENERATED if n not in LENGTHS and n != "solve_equation"])
def test_sources_are_counted(name: str) -> None:
    """Where the count is exact: by drawing, at the least length that has eight."""
    task: Any = tasks[name].cls(0, examples=2000)
    length = next(n for n in itertools.count(1) if task.count(n) >= 8)
    rng = random.Random(0)
    assert len({task.example(rng, length)[0] for _ in range(3000)}) == task.count(length)
