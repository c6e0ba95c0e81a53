"""Groups in a plane, and the front of the best trades between cost and score."""

import numpy as np
import pytest

from relformer.figures.scatter import Points, draw_scatter, pareto_front


def test_the_front_is_what_none_beats() -> None:
    points = [(1.0, 0.2), (2.0, 0.5), (2.0, 0.4), (3.0, 0.5), (4.0, 0.9), (1.0, 0.2)]
    assert pareto_front(points) == [0, 1, 4, 5]
    drawn = [tuple(p) for p in np.random.default_rng(0).random((40, 2))]
    front = pareto_front(drawn)
    for i, point in enumerate(drawn):
        beaten = any(o != point and o[0] <= point[0] and o[1] >= point[1] for o in drawn)
        assert beaten != (i in front)
    costs = sorted(drawn[i] for i in front)
    assert [y for _, y in costs] == sorted(y for _, y in costs)


def test_means_dots_whiskers_and_front_are_drawn() -> None:
    groups = [
        Points("t5", [1.0, 1.0], [0.2, 0.4], None, (0.1, 0.5)),
        Points("alibi", [2.0, 2.0], [0.1, 0.2]),
        Points("shaw", [3.0], [0.9]),
    ]
    figure = draw_scatter(groups, "seconds", "score", front=True, width=3.35)
    figure.canvas.draw()
    axis = figure.axes[0]
    assert figure.get_figwidth() == 3.35
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("seconds", "score")
    lines = {str(line.get_label()): np.column_stack(line.get_data()).tolist() for line in axis.get_lines()}
    assert np.allclose([lines[g.label][0] for g in groups], [g.mean for g in groups])
    assert np.allclose(lines["Pareto front"], [[1.0, 0.3], [3.0, 0.9]])
    dots = sorted(place for c in axis.collections for place in map(tuple, np.asarray(c.get_offsets()).tolist()))
    assert {(1.0, 0.2), (1.0, 0.4), (2.0, 0.1), (2.0, 0.2), (3.0, 0.9)} <= set(dots)
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["t5", "alibi", "shaw", "Pareto front"]


def test_points_without_pairs_are_refused() -> None:
    for x, y in (([], []), ([1.0], [1.0, 2.0])):
        with pytest.raises(ValueError, match="one entry a run"):
            Points("x", x, y)
