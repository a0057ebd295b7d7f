import ctypes
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from llvmlite import ir
from numpy.typing import NDArray

from seqloom.kernels.llvm import jit_cache, vector_math
from seqloom.kernels.llvm.ir_builder import Emitter

FLOATS: dict[str, type[np.floating[Any]]] = {"float": np.float32, "double": np.float64}
EVERY_TYPE = pytest.mark.parametrize("real", FLOATS)
Values = NDArray[Any]


def sigmoid(x: Values) -> Values:
    return 1 / (1 + np.exp(-x))


REFERENCE: dict[str, Callable[[Values], Values]] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "sigmoid": sigmoid,
    "tanh": np.tanh,
}
EVERY_FUNCTION = pytest.mark.parametrize("name", REFERENCE)


@cache
def compiled(name: str, real: str) -> Callable[..., None]:
    """A loop of one function over whole vectors: (x, out, count)."""

    def emit() -> str:
        module = ir.Module(name)
        emitter = Emitter(module, "apply", 3, real)
        x, out, count = emitter.arguments
        with emitter.loop(0, count, emitter.lanes) as index:
            value = emitter.load(emitter.address(x, index))
            emitter.store(getattr(vector_math, name)(emitter, value), emitter.address(out, index))
        emitter.finish()
        return str(module)

    (address,) = jit_cache.load(f"test of {name} {real}", emit, ("apply",))
    return jit_cache.c_function(address, *[ctypes.c_int64] * 3)


def apply(name: str, values: Values, real: str) -> Values:
    lanes = jit_cache.vector_bytes() // np.dtype(FLOATS[real]).itemsize
    x = np.zeros(-(-len(values) // lanes) * lanes, dtype=FLOATS[real])
    x[: len(values)] = values
    out = np.empty_like(x)
    compiled(name, real)(x.ctypes.data, out.ctypes.data, len(x))
    return out[: len(values)]


def domain(name: str, real: str) -> Values:
    """Numbers of all magnitudes for which the result is a normal number; of both signs except for log."""
    info = np.finfo(FLOATS[real])
    exponent = 0.98 * np.log(float(info.max))
    high = exponent if name in ("exp", "expm1") else 1e30
    low = exponent if name in ("exp", "sigmoid") else high
    small = np.geomspace(float(info.tiny), 1e-3, 3000)
    large = np.geomspace(1e-3, high, 20_000)
    positive = np.concatenate([small, large, np.linspace(0.5, 2, 5000), np.linspace(0, 30, 5000)[1:]])
    chosen = positive if name == "log" else np.concatenate([positive, -positive[positive <= low]])
    return chosen.astype(FLOATS[real])


# The polynomials have an error below one rounding; reduction, series, scaling and division add some more.
@EVERY_FUNCTION
@EVERY_TYPE
def test_errors_are_a_few_units_in_the_last_place(name: str, real: str) -> None:
    x = domain(name, real)
    # In extended precision where the platform has it; NumPy is accurate to one unit.
    expected = REFERENCE[name](x.astype(np.longdouble))
    actual = apply(name, x, real).astype(np.longdouble)
    unit = np.finfo(FLOATS[real]).eps
    error = np.abs(actual - expected) / np.abs(expected) / unit
    worst = int(np.argmax(np.where(expected == 0, 0, error)))
    assert error[worst] < 4, f"{name}({x[worst]}) is {actual[worst]}, expected {expected[worst]}"


LIMITS = {  # at −∞, ∞ and 0
    "exp": (0.0, np.inf, 1.0),
    "expm1": (-1.0, np.inf, 0.0),
    "log": (np.nan, np.inf, -np.inf),
    "sigmoid": (0.0, 1.0, 0.5),
    "tanh": (-1.0, 1.0, 0.0),
}


@EVERY_FUNCTION
@EVERY_TYPE
def test_infinity_zero_and_nan(name: str, real: str) -> None:
    low, high, zero = LIMITS[name]
    actual = apply(name, np.array([-np.inf, np.inf, np.nan, 0.0, -0.0]), real)
    # A sigmoid far below zero may end at the smallest normal number.
    np.testing.assert_allclose(
        actual, [low, high, np.nan, zero, zero], rtol=0, atol=8 * float(np.finfo(FLOATS[real]).tiny)
    )


@EVERY_TYPE
def test_arguments_far_out_of_range(real: str) -> None:
    x = np.array([-1e30, -1000.0, 1000.0, 1e30])
    np.testing.assert_array_equal(apply("exp", x, real), [0, 0, np.inf, np.inf])
    np.testing.assert_array_equal(apply("expm1", x, real), [-1, -1, np.inf, np.inf])
    np.testing.assert_array_equal(apply("tanh", x, real), [-1, -1, 1, 1])
    np.testing.assert_allclose(
        apply("sigmoid", x, real), [0, 0, 1, 1], rtol=0, atol=8 * float(np.finfo(FLOATS[real]).tiny)
    )
    np.testing.assert_array_equal(np.isnan(apply("log", x, real)), [True, True, False, False])


@EVERY_TYPE
@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_maximum_and_minimum_propagate_nan(name: str, real: str) -> None:
    def emit() -> str:
        module = ir.Module(name)
        emitter = Emitter(module, "apply", 3, real)
        x, y, out = (emitter.address(argument, 0) for argument in emitter.arguments)
        emitter.store(getattr(vector_math, name)(emitter, emitter.load(x), emitter.load(y)), out)
        emitter.finish()
        return str(module)

    (address,) = jit_cache.load(f"test of {name} {real}", emit, ("apply",))
    lanes = jit_cache.vector_bytes() // np.dtype(FLOATS[real]).itemsize
    x, y, out = np.zeros((3, lanes), dtype=FLOATS[real])
    x[:2], y[:2] = [1, 2], [2, 1]
    pairs = [(1.0, 2.0), (np.nan, 1.0), (1.0, np.nan), (-np.inf, np.inf)]
    for left, right in pairs:
        x[0], y[0] = left, right
        jit_cache.c_function(address, *[ctypes.c_int64] * 3)(x.ctypes.data, y.ctypes.data, out.ctypes.data)
        np.testing.assert_array_equal(out, getattr(np, name)(x, y))


@EVERY_TYPE
def test_erfc(real: str) -> None:
    """The truncated series has an error below one rounding; its evaluation, exp and the division add some."""
    info = np.finfo(FLOATS[real])
    x = np.concatenate([np.geomspace(1e-30, 1, 500), np.linspace(0, 9 if real == "float" else 26, 5000)])
    x = x.astype(FLOATS[real])
    expected = np.array([math.erfc(value) for value in x.tolist()])
    np.testing.assert_allclose(apply("erfc", x, real), expected, rtol=32 * float(info.eps))
    far = apply("erfc", np.array([0.0, 40.0, np.inf, np.nan], dtype=FLOATS[real]), real)
    np.testing.assert_allclose(far[:3], [1, 0, 0], rtol=32 * float(info.eps))
    assert np.isnan(far[3])


@EVERY_TYPE
def test_sin_cos_and_erf(real: str) -> None:
    """Absolute errors: a sine near a multiple of π has no more digits than its argument."""
    info = np.finfo(FLOATS[real])
    x = np.concatenate([np.geomspace(1e-30, 1e4, 20_000), np.linspace(0, 50, 20_000)])
    x = np.concatenate([x, -x]).astype(FLOATS[real])
    functions: dict[str, Callable[[Values], Values]] = {"sin": np.sin, "cos": np.cos, "erf": np.vectorize(math.erf)}
    for name, function in functions.items():
        expected = function(x.astype(np.float64))
        unit = float(info.eps)
        np.testing.assert_allclose(apply(name, x, real), expected, rtol=4 * unit, atol=unit, err_msg=name)
    special = np.array([0.0, -np.inf, np.inf, np.nan, 1e30], dtype=FLOATS[real])
    np.testing.assert_array_equal(apply("sin", special, real)[:4], [0, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(apply("cos", special, real)[:4], [1, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(apply("erf", special, real), [0, -1, 1, np.nan, 1])
    assert abs(apply("sin", special, real)[4]) <= 1
