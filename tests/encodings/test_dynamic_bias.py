"""The network of the distance against x-transformers, and what it can tell apart."""

import pytest
import torch

from tests.encodings.calls import enliven, fixture, make, pair_bias, put


@pytest.mark.parametrize("kind", ["log", "lin"])
def test_bias_of_x_transformers(kind: str) -> None:
    case = fixture("dynamic_position_bias")
    encoding = make("dynamic_bias", heads=2, hidden=6, log_distance=kind == "log")
    layers = {f"distance_mlp.{part}s.{n}": f"{kind}.param.mlp.{n}.0.{part}" for n in (0, 1) for part in ("weight",)}
    layers |= {f"distance_mlp.biases.{n}": f"{kind}.param.mlp.{n}.0.bias" for n in (0, 1)}
    layers |= {"distance_mlp.weights.2": f"{kind}.param.mlp.2.weight"}
    layers |= {"distance_mlp.biases.2": f"{kind}.param.mlp.2.bias"}
    put(encoding, **{ours: case[theirs] for ours, theirs in layers.items()})
    torch.testing.assert_close(pair_bias(encoding, range(5), range(5))[0], case[f"full_{kind}"], rtol=0, atol=2e-5)
    step = pair_bias(encoding, range(4, 5), range(5))[0]
    torch.testing.assert_close(step, case[f"step_{kind}"], rtol=0, atol=2e-5)


@pytest.mark.parametrize("options", [{}, {"depth": 1}, {"depth": 4, "hidden": 5}])
def test_sizes_of_the_network(options: dict[str, int]) -> None:
    sizes = [tuple(p.shape) for p in make("dynamic_bias", **options).distance_mlp.weights]
    hidden, depth = options.get("hidden", 6), options.get("depth", 2)  # a quarter of 24
    assert sizes == [(hidden, 1), *[(hidden, hidden)] * (depth - 1), (3, hidden)]


def test_a_logarithm_makes_long_distances_mild_and_leaves_directions_apart() -> None:
    log, plain = make("dynamic_bias"), make("dynamic_bias", log_distance=False)
    enliven(log)
    enliven(plain)
    at = range(100_000, 100_001)
    assert pair_bias(log, at, range(1)).abs().max() < 200 < pair_bias(plain, at, range(1)).abs().max()
    bias = pair_bias(log, range(5), range(5))[0]
    assert (bias - bias.mT)[:, 1, 0].abs().min() > 1e-3
