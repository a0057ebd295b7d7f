"""Activation functions and their derivatives against their formulas in NumPy."""

import math
from pathlib import Path

import numpy as np
import pytest

from seqloom.cells.elman import ACTIVATIONS as ELMAN
from seqloom.insight.activation_plot import NAMES, activation_curve, draw_activations
from seqloom.layers.convolution import ACTIVATIONS as PRENET


def normal_cdf(x: np.ndarray) -> np.ndarray:
    return np.array([0.5 * (1 + math.erf(value / math.sqrt(2))) for value in x])


def test_all_activations_of_elman_and_prenets_are_there() -> None:
    assert set(NAMES) == (set(ELMAN) | set(PRENET)) - {"none"}


@pytest.mark.parametrize("name", NAMES)
def test_functions_and_derivatives_equal_their_formulas(name: str) -> None:
    curve = activation_curve(name, points=40, negative_slope=0.2, elu_alpha=0.7)  # no point at 0, where some have none
    x = np.array(curve.inputs)
    sigmoid = 1 / (1 + np.exp(-x))
    density = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    function, derivative = {
        "tanh": (np.tanh(x), 1 - np.tanh(x) ** 2),
        "sigmoid": (sigmoid, sigmoid * (1 - sigmoid)),
        "relu": (np.maximum(x, 0), (x > 0) * 1.0),
        "leaky_relu": (np.where(x > 0, x, 0.2 * x), np.where(x > 0, 1.0, 0.2)),
        "elu": (np.where(x > 0, x, 0.7 * (np.exp(x) - 1)), np.where(x > 0, 1.0, 0.7 * np.exp(x))),
        "gelu": (x * normal_cdf(x), normal_cdf(x) + x * density),
        "maxout": (np.maximum(x, -x / 2 - 0.5), np.where(x > -1 / 3, 1.0, -0.5)),
    }[name]
    np.testing.assert_allclose(curve.outputs, function, atol=1e-12)
    np.testing.assert_allclose(curve.derivatives, derivative, atol=1e-12)
    assert curve.largest_derivative == max(curve.derivatives)
    assert curve.to_dict()["name"] == name


def test_an_unknown_activation_is_an_error() -> None:
    with pytest.raises(ValueError, match="activation is 'swish', expected one of tanh, sigmoid"):
        activation_curve("swish")


def test_they_are_drawn_together(tmp_path: Path) -> None:
    figure = draw_activations(tmp_path / "activations.svg")
    assert len(figure.axes) == len(NAMES)
    assert "derivative" in (tmp_path / "activations.svg").read_text()
