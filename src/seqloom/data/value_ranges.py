"""The range of each column of numbers, columns that never change, and values that lie far outside the others."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

FAR = 50  # times the range of the other values: a single value so far away is reported
FAR_REPEATED = 5  # the same for a value that occurs several times, as a code for missing values does
FAR_NINES = 0.5  # the same for such a value that is written with nines, as -999
MIN_DISTINCT = 10  # different values of a column, below which they may be codes themselves
MIN_DISTINCT_NINES = 3  # the same beside a value such as -999
KEPT_ELEMENTS = 1 << 20  # in which values far outside are searched


class ValueRanges:
    """Collects columns of numbers (T, D), one array after the other; one that several examples share counts once."""

    def __init__(self) -> None:
        self.low = self.high = np.zeros(0)
        self.names: Sequence[str] = ()  # empty: numbered
        self._last: NDArray[Any] | None = None
        self._kept: list[NDArray[Any]] = []

    def add(self, values: NDArray[Any] | None, names: Sequence[str]) -> None:
        if values is None or values.ndim != 2 or not len(values) or self._is_last(values):
            return
        low, high = values.min(axis=0), values.max(axis=0)
        if len(low) == len(self.low):
            low, high = np.minimum(low, self.low), np.maximum(high, self.high)
        self.low, self.high, self.names = low, high, names
        self._last = values
        if sum(kept.size for kept in self._kept) < KEPT_ELEMENTS:
            self._kept.append(values)

    def _is_last(self, values: NDArray[Any]) -> bool:
        """Whether these are the values that were added before, perhaps another view of them."""
        last = self._last
        return last is not None and values.shape == last.shape and values.ctypes.data == last.ctypes.data

    def name(self, column: int) -> str:
        return self.names[column] if self.names else str(column + 1)

    @property
    def constant(self) -> list[str]:
        """Columns that never change."""
        return [self.name(column) for column in np.flatnonzero(self.low == self.high).tolist()]

    def far_outside(self) -> list[str]:
        """Values far outside all others of their column, in sentences."""
        same = [kept for kept in self._kept if kept.shape[1] == len(self.low)]
        columns = np.concatenate(same).T if same else np.zeros((0, 0))
        return [f"column {self.name(index)}: {text}" for index, column in enumerate(columns) if (text := _far(column))]


def has_single_colour(values: NDArray[Any] | None) -> bool:
    """Whether all pixels of an image (H, W, 3) or a video (T, H, W, 3) are equal."""
    if values is None or values.ndim < 3 or not values.size:
        return False
    return bool((values == values.reshape(-1, values.shape[-1])[0]).all())


def _far(column: NDArray[Any]) -> str:  # (T,)
    """The smallest or largest value, if it lies far outside the others; empty if neither does."""
    column = column[np.isfinite(column)]
    if not len(column):
        return ""
    inner = column[(column != column.min()) & (column != column.max())]
    distinct = len(np.unique(inner))
    if distinct < MIN_DISTINCT_NINES:
        return ""
    low, high = float(inner.min()), float(inner.max())
    parts = []
    for value, distance in ((float(column.min()), low - column.min()), (float(column.max()), column.max() - high)):
        count = int((column == value).sum())
        is_code = set(f"{abs(value):g}") == {"9"} and abs(value) > 90
        if distinct < MIN_DISTINCT and not is_code:
            continue
        limit = FAR if count == 1 else FAR_NINES if is_code else FAR_REPEATED
        if distance > limit * (high - low) and 2 * count < len(column):
            parts.append(f"{count:,} times {value:g}" if count > 1 else f"{value:g}")
    return f"{' and '.join(parts)}, far outside the other values, {low:g} to {high:g}: missing?" if parts else ""
