"""The receptive field of stacks that are known to see so far and no further."""

import numpy as np
import torch

from relformer.analysis.receptive_field import cumulative, receptive_field
from tests.analysis.test_position_map import LENGTH, probe
from tests.model.models import build


def test_shares_by_distance() -> None:
    gradient = torch.tensor([[[3.0, 4.0], [0.0, 0.0], [0.0, 15.0]]])  # norms 5, 0, 15
    np.testing.assert_allclose(cumulative(gradient), [0.75, 0.75, 1.0])


def test_a_window_ends_the_field() -> None:
    """Two layers of a window of 3 reach 6 back, and all of the gradient lies there; without it, beyond too."""
    field = receptive_field(build("window"), probe())
    for role in ("encoder", "decoder"):
        assert field[role].shape == (LENGTH,)
        assert (np.diff(field[role]) >= 0).all()
        assert field[role][5] < 1 - 1e-4 and field[role][6] > 1 - 1e-5
        assert receptive_field(build("t5"), probe())[role][6] < 0.99
