"""The files of a report: one line an example, a picture, and a warning where a result means nothing."""

import json
from pathlib import Path

import pytest
import torch
from matplotlib.image import imread
from torch import Tensor

from relformer.evaluation.outcomes import COLUMNS
from relformer.evaluation.report import caution, print_table, write_examples, write_report


def rows(exact: list[float], lengths: list[int]) -> Tensor:
    """Outcomes of examples that are wholly right or wholly wrong."""
    made = []
    for number, (right, length) in enumerate(zip(exact, lengths, strict=True)):
        first = (length + 1) * right
        made.append([number, length + 2, length, length + 1, right, right, first, first, 0.125 * number])
    return torch.tensor(made, dtype=torch.float64)


def test_examples_are_json_lines_that_give_back_the_outcomes(tmp_path: Path) -> None:
    sets = {"test_iid": rows([1, 0, 1], [1, 2, 3]), "test_longer": rows([0, 1], [7, 9])}
    write_examples(sets, tmp_path / "examples.jsonl")
    text = (tmp_path / "examples.jsonl").read_text()
    assert text.endswith("}\n") and text.count("\n") == 5
    records = [json.loads(line) for line in text.splitlines()]
    for name, expected in sets.items():
        found = [[record[column] for column in COLUMNS] for record in records if record["set"] == name]
        assert found == expected.tolist()
    assert all(type(record["exact_match"]) is int and type(record["loss"]) is float for record in records)


def test_a_report_is_of_the_tests_alone(tmp_path: Path) -> None:
    sets = {"val_iid": rows([1], [4]), "test_iid": rows([1, 0], [4, 5]), "test_longer": rows([0, 0], [9, 9])}
    write_report(sets, {"checkpoint": "last"}, "a run", 5, tmp_path)
    names = {json.loads(line)["set"] for line in (tmp_path / "examples.jsonl").read_text().splitlines()}
    assert names == {"test_iid", "test_longer"}
    assert json.loads((tmp_path / "metrics.json").read_text()) == {"checkpoint": "last"}
    assert imread(tmp_path / "length_curve.png").std() > 0
    assert {path.name for path in tmp_path.iterdir()} == {"examples.jsonl", "metrics.json", "length_curve.png"}


def test_the_table_has_a_line_for_each_length_and_one_for_all(capsys: pytest.CaptureFixture[str]) -> None:
    sets = {"test_iid": rows([1, 0, 1, 1], [1, 2, 2, 2]), "test_longer": rows([0], [9])}
    print_table(sets, "a run")
    lines = capsys.readouterr().out.splitlines()
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if "│" in line]
    found = [row[:4] for row in cells]
    assert found == [
        ["test_iid", "1", "1", "1.000"],
        ["test_iid", "2", "3", "0.667"],
        ["test_iid", "all", "4", "0.750"],
        ["test_longer", "all", "1", "0.000"],
    ]


@pytest.mark.parametrize(("right", "warned"), [(97, True), (98, False), (100, False)])
def test_what_was_not_learned_is_not_interpreted(right: int, warned: bool) -> None:
    exact = [float(number < right) for number in range(100)]
    text = caution({"test_iid": rows(exact, [3] * 100), "test_longer": rows([0], [9])}, {"name": "reverse"})
    assert (text is not None and "not interpretable" in text) == warned
    assert caution({"test_longer": rows([0], [9])}, {}) is None


def test_subword_text_is_not_asked_to_be_right_to_the_token() -> None:
    sets = {"test_iid": rows([0.0], [3]), "test_longer": rows([0], [9])}
    assert caution(sets, {"tokenizer": {"kind": "word"}}) and caution(sets, {"tokenizer": None})
    assert caution(sets, {"tokenizer": {"kind": "bpe"}}) is None
