"""DLinear (Zeng et al. 2023): a linear forecast from the trend and the remainder of the history, fitted in closed form.

Each series is split into its moving average and the rest; both are mapped to the horizon by matrices that all columns
share. As the average is linear, too, the two maps are stored as one.

DLinear returns to the mean of the training data, which is wrong after the level of a series has changed. The same maps
of the changes from the last value (NLinear in the same paper) follow the level wherever it goes. A network starts from
the mean of both.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import model_validator
from torch import Tensor

from seqloom.config import ConfigSection

Numbers = NDArray[np.float64]

AVERAGED = 25  # steps of the moving average
PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)  # of the squared weights, for each training window
MAX_LENGTH = 512  # steps of the history that are read; the cost grows with their square
MAX_WINDOWS = 100_000  # from which the maps are fitted; of more, evenly spaced ones
MIN_WINDOWS = 20
AT_ONCE = 4096  # windows
VALIDATED = 5  # the last of this many parts of each series chooses the penalty
DIGITS = 7  # significant ones of the stored numbers


class LinearForecast(ConfigSection):
    """Fitted maps, for standardised values."""

    weight: tuple[tuple[float, ...], ...]  # (horizon, length)
    bias: tuple[float, ...]  # (horizon,)
    errors: tuple[tuple[float, ...], ...]  # (horizon, targets), root mean square on the training data
    gain: float  # 1 − its squared error / that of the last value, on training windows that it was not fitted to

    @model_validator(mode="after")
    def _check(self) -> Self:
        lengths, targets = {len(row) for row in self.weight}, {len(row) for row in self.errors}
        if len(lengths) != 1 or len(targets) != 1 or not len(self.weight) == len(self.bias) == len(self.errors):
            raise ValueError("linear forecast: expected weights, a bias and errors for each step of the horizon")
        return self

    @property
    def length(self) -> int:
        return len(self.weight[0])

    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """Weight, bias and errors."""
        return torch.tensor(self.weight), torch.tensor(self.bias), torch.tensor(self.errors)

    def forecast(self, histories: Numbers) -> Numbers:  # (N, length, K) → (N, horizon, K), standardised
        """The forecasts after histories."""
        product: Numbers = np.einsum("hl,nlk->nhk", np.array(self.weight), histories)
        forecast: Numbers = product + np.array(self.bias)[:, None]
        return forecast


class LinearForecasts(NamedTuple):
    """Linear forecasts from the same training data."""

    dlinear: LinearForecast
    combined: LinearForecast  # the mean of DLinear and of its maps of the changes from the last value


def fit_linear(
    parts: Sequence[Numbers],  # each (T, targets), standardised
    length: int,  # steps of the history
    horizon: int,
) -> LinearForecasts | None:
    """The linear forecasts that fit the windows of these series best; None: there are too few."""
    length = min(length, MAX_LENGTH)
    windows = sum(max(len(part) - length - horizon + 1, 0) * part.shape[1] for part in parts)
    if windows < MIN_WINDOWS or length < 2:
        return None
    stride = max(windows // MAX_WINDOWS, 1)
    average = _averaging(length)
    fitted, between, validated = (_Sums(length, horizon) for _ in range(3))
    for part in parts:
        count = len(part) - length - horizon + 1
        first = count - count // VALIDATED  # of the windows for validation, whose targets those before must not have
        last = max(first - horizon, 0)
        for sums, start, end in ((fitted, 0, last), (between, last, first), (validated, first, count)):
            for histories, futures in _windows(part, length, horizon, start, end, stride):
                sums.add(_features(histories, average), futures)
    solvers = (_Sums.solve, _Sums.solve_changes)
    penalties, gains = [PENALTIES[2]] * len(solvers), [0.0, 0.0]
    if fitted.count and validated.count:
        tried = [{penalty: solve(fitted, penalty) for penalty in PENALTIES} for solve in solvers]
        penalties = [_best_penalty(solutions, validated) for solutions in tried]
        dlinear, changes = (solutions[penalty] for solutions, penalty in zip(tried, penalties, strict=True))
        if persistence := _persistence(parts, length, horizon, stride):
            gains = [1 - validated.error(solution) / persistence for solution in (dlinear, (dlinear + changes) / 2)]
    total = fitted + between + validated
    dlinear, changes = (solve(total, penalty) for solve, penalty in zip(solvers, penalties, strict=True))
    return LinearForecasts(
        _forecast(dlinear, average, gain=gains[0], parts=parts, stride=stride),
        _forecast((dlinear + changes) / 2, average, gain=gains[1], parts=parts, stride=stride),
    )


def _best_penalty(
    solutions: dict[float, Numbers],  # by penalty
    validated: "_Sums",
) -> float:
    return min(solutions, key=lambda penalty: validated.error(solutions[penalty]))


def _forecast(
    solution: Numbers,  # (2 · length + 1, horizon)
    average: Numbers,  # (length, length)
    *,
    gain: float,
    parts: Sequence[Numbers],
    stride: int,
) -> LinearForecast:
    """The maps of trend and rest as one map of the history."""
    length, horizon = len(average), solution.shape[1]
    trend, rest, bias = solution[:length].T, solution[length:-1].T, solution[-1]
    weight = trend @ average + rest @ (np.eye(length) - average)
    result = LinearForecast(
        weight=_rounded(weight), bias=_rounded(bias[None])[0], errors=_rounded(np.ones((horizon, 1))), gain=gain
    )
    return result.model_copy(update={"errors": _rounded(_training_errors(result, parts, stride))})


class _Sums:
    """The sums of the normal equations."""

    def __init__(self, length: int, horizon: int) -> None:
        size = 2 * length + 1
        self.squares, self.products = np.zeros((size, size)), np.zeros((size, horizon))
        self.truth, self.count = 0.0, 0

    def add(self, features: Numbers, futures: Numbers) -> None:  # (N, size), (N, horizon)
        self.squares += features.T @ features
        self.products += features.T @ futures
        self.truth += float((futures**2).sum())
        self.count += len(features)

    def __add__(self, other: "_Sums") -> "_Sums":
        total = _Sums((len(self.squares) - 1) // 2, self.products.shape[1])
        total.squares, total.products = self.squares + other.squares, self.products + other.products
        total.truth, total.count = self.truth + other.truth, self.count + other.count
        return total

    def solve(self, penalty: float) -> Numbers:  # (size, horizon)
        """Ridge regression; the bias is not penalised."""
        penalties = np.full(len(self.squares), penalty * self.count)
        penalties[-1] = 1e-9 * self.count
        return np.asarray(np.linalg.solve(self.squares + np.diag(penalties), self.products), np.float64)

    def solve_changes(self, penalty: float) -> Numbers:  # (size, horizon)
        """The same for maps of the changes from the last value, written as maps of the values."""
        size, length = len(self.squares), (len(self.squares) - 1) // 2
        last = np.zeros((size, 1))
        last[[length - 1, 2 * length - 1]] = 1  # trend + rest at the last step
        # The trend of x − last is that of x less last, and the rest is the same: new features are features @ change.
        change = np.eye(size)
        change[:, :length] -= last
        relative = _Sums(length, self.products.shape[1])
        relative.squares = change.T @ self.squares @ change
        relative.products = change.T @ (self.products - self.squares @ last)
        relative.count = self.count
        solution: Numbers = change @ relative.solve(penalty) + last
        return solution

    def error(self, solution: Numbers) -> float:
        """The mean squared error of a solution on these windows."""
        total = self.truth - 2 * (solution * self.products).sum() + (solution * (self.squares @ solution)).sum()
        return float(total / (self.count * self.products.shape[1]))


def _windows(
    part: Numbers, length: int, horizon: int, first: int, end: int, stride: int
) -> Iterator[tuple[Numbers, Numbers]]:
    """Histories (N, length) and futures (N, horizon) of each column, some at a time."""
    if end <= first:
        return
    view = np.lib.stride_tricks.sliding_window_view(part, length + horizon, axis=0)[first:end:stride]
    for start in range(0, len(view), AT_ONCE):
        rows = view[start : start + AT_ONCE].reshape(-1, length + horizon)
        yield rows[:, :length], rows[:, length:]


def _features(histories: Numbers, average: Numbers) -> Numbers:  # (N, length) → (N, 2 · length + 1)
    trend = histories @ average.T
    return np.concatenate([trend, histories - trend, np.ones((len(histories), 1))], axis=1)


def _averaging(length: int) -> Numbers:  # (length, length)
    """The matrix of the moving average; the first and the last value are repeated beyond the ends."""
    reach = AVERAGED // 2
    places = np.clip(np.arange(length)[:, None] + np.arange(-reach, reach + 1), 0, length - 1)
    matrix = np.zeros((length, length))
    np.add.at(matrix, (np.arange(length)[:, None], places), 1 / AVERAGED)
    return matrix


def _persistence(parts: Sequence[Numbers], length: int, horizon: int, stride: int) -> float:
    """The mean squared error of the last value on the windows for validation."""
    total, count = 0.0, 0
    for part in parts:
        windows = len(part) - length - horizon + 1
        for histories, futures in _windows(part, length, horizon, windows - windows // VALIDATED, windows, stride):
            total += float(((futures - histories[:, -1:]) ** 2).sum())
            count += futures.size
    return total / count if count else 0.0


def _training_errors(fitted: LinearForecast, parts: Sequence[Numbers], stride: int) -> Numbers:  # (horizon, targets)
    length, horizon = fitted.length, len(fitted.bias)
    total, count = np.zeros((horizon, parts[0].shape[1])), 0
    for part in parts:
        if len(part) < length + horizon:
            continue
        view = np.lib.stride_tricks.sliding_window_view(part, length + horizon, axis=0)[::stride]
        for start in range(0, len(view), AT_ONCE):
            rows = view[start : start + AT_ONCE].swapaxes(1, 2)  # (N, length + horizon, targets)
            total += ((rows[:, length:] - fitted.forecast(rows[:, :length])) ** 2).sum(axis=0)
            count += len(rows)
    return np.sqrt(total / max(count, 1))


def _rounded(matrix: Numbers) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(f"{value:.{DIGITS}g}") for value in row) for row in matrix)
