"""What is said of a table, and when runs confirm it."""

import math
from itertools import pairwise

import pytest

from relformer.published.findings import Sample, verdict
from relformer.published.tables import Table, published_tables


def order(*groups: dict[str, list[float]]) -> list[list[Sample]]:
    return [[Sample(name, values) for name, values in group.items()] for group in groups]


def test_all_runs_in_the_order_confirm_it() -> None:
    """The closest pair is named, with the chance of five above five."""
    five = [0.4, 0.5, 0.6, 0.7, 0.8]
    said = verdict(order({"a": five, "b": [x + 0.1 for x in five]}, {"c": [0.0, 0.1, 0.2, 0.3, 0.39]}))
    assert said.startswith("**confirmed**: closest are a 0.400 - 0.800 (n 5) above c 0.000 - 0.390 (n 5)")
    assert f"p = {1 / math.comb(10, 5):.3g}" in said


def test_runs_the_other_way_round_contradict_it() -> None:
    """On two sides and with as many chances as there are pairs: three against three never do."""
    low, high = [0.1, 0.15, 0.2, 0.25, 0.3], [0.4, 0.45, 0.5, 0.55, 0.6]
    said = verdict(order({"a": [x + 0.1 for x in high]}, {"b": low}, {"c": high}))
    assert said == "**contradicted**: b 0.100 - 0.300 (n 5) is not above c 0.400 - 0.600 (n 5)."
    assert verdict(order({"b": low[:3]}, {"c": high[:3]})).startswith("**so far no**")
    other = {"b": [x / 10 for x in low], "d": [x / 9 for x in low], "e": [x / 8 for x in low]}
    assert verdict(order({"a": low, "f": low, "g": low}, other | {"c": high})).startswith("**so far no**")


@pytest.mark.parametrize("runs", [[0.2], [0.2, 0.3, 0.6]])
def test_few_runs_or_runs_that_overlap_decide_nothing(runs: list[float]) -> None:
    other = [0.4] * len(runs) if len(runs) == 1 else [0.3, 0.4, 0.7]
    assert verdict(order({"a": other}, {"b": runs})).startswith("**so far yes**: closest are a 0.")
    said = verdict(order({"b": runs}, {"a": other}))
    assert said.startswith("**so far no**: b 0.2") and "is not above a" in said


def test_one_pair_that_is_not_told_apart_leaves_the_whole_open() -> None:
    assert verdict(order({"a": [0.7, 0.8, 0.9], "b": [0.5]}, {"c": [0.1, 0.2, 0.3]})).startswith("**so far yes**")


def test_only_neighbours_are_compared() -> None:
    assert "so far yes" in verdict(order({"a": [0.3]}, {"b": [0.2]}, {"c": [0.1]}))
    assert "so far no" in verdict(order({"a": [0.3]}, {"b": [0.1]}, {"c": [0.2]}))


def test_what_was_not_run_is_open() -> None:
    assert verdict(order({"a": [], "b": [0.1]}, {"c": []})) == "**open**, not run: a; c."


def test_rows_without_runs_keep_what_the_others_say_from_being_confirmed() -> None:
    above, below = [0.7, 0.8, 0.9], [0.1, 0.2, 0.3]
    said = verdict(order({"a": above, "d": []}, {"c": below}))
    assert said == "**so far yes**: closest are a 0.700 - 0.900 (n 3) above c 0.100 - 0.300 (n 3). Still not run: d."
    said = verdict(order({"a": [0.1], "d": []}, {"c": [0.2]}))
    assert said == "**so far no**: a 0.100 (n 1) is not above c 0.200 (n 1). Still not run: d."


@pytest.mark.parametrize("table", published_tables(), ids=lambda table: table.title)
def test_findings_are_of_rows_of_their_table(table: Table) -> None:
    """Each names at least two groups, no row twice; the published figures, where there are any, are in the order."""
    rows = {row.name: row for row in table.rows}
    for finding in table.findings:
        named = [name for group in finding.order for name in group]
        assert len(finding.order) > 1 and set(named) <= rows.keys() and len(set(named)) == len(named)
        theirs = [[figure for name in group if (figure := rows[name].published) is not None] for group in finding.order]
        if all(theirs) and not finding.reach:
            assert all(min(one) > max(other) for one, other in pairwise(theirs)), finding.says
