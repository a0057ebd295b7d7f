"""Parts of the quantiles of forecasts."""

import math

import numpy as np

from seqloom.onnx.exported import open_session
from seqloom.onnx.forecast_distributions import normal_probability
from seqloom.onnx.graph import DOUBLE, Graph


def test_the_normal_distribution_is_exact_in_double_precision() -> None:
    graph = Graph()
    graph.output("y", normal_probability(graph.input("x", DOUBLE, ["n"])), ["n"])
    x = np.concatenate([np.linspace(-37, 9, 5001), [0.0, -1e-300, 1e300, -1e300]])
    (y,) = open_session(graph.finish("normal", {}).SerializeToString()).run(None, {"x": x})
    exact = np.array([math.erfc(-value / math.sqrt(2)) / 2 for value in x])
    # The exponent of a small probability is rounded by its size, up to 700, times 2e-16.
    np.testing.assert_allclose(y, exact, rtol=5e-13, atol=0)
    np.testing.assert_allclose(y[np.abs(x) < 3], exact[np.abs(x) < 3], rtol=1e-14)
