"""Metrics of forecast quantiles: pinball loss, CRPS, and the coverage and width of central intervals."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.float64]

SAME_LEVEL = 1e-6  # difference up to which two probabilities are the same
USUAL_COVERAGE = 0.8  # of the interval that is shown


def central_intervals(levels: Sequence[float]) -> list[tuple[int, int, float]]:
    """The places of the lower and upper quantile of each central interval, and its nominal coverage; widest first."""
    pairs = []
    for low, level in enumerate(levels):
        high = next((place for place, other in enumerate(levels) if abs(level + other - 1) < SAME_LEVEL), None)
        if level < 0.5 and high is not None:
            pairs.append((low, high, round(1 - 2 * level, 6)))
    return sorted(pairs, key=lambda pair: -pair[2])


def usual_interval(levels: Sequence[float]) -> tuple[int, int] | None:
    """The places of the bounds of the interval whose coverage is closest to 80 %; None: there is none."""
    pairs = central_intervals(levels)
    low, high, _ = min(pairs, key=lambda pair: abs(pair[2] - USUAL_COVERAGE), default=(0, 0, 0.0))
    return (low, high) if pairs else None


def pinball(truth: ArrayLike, quantiles: ArrayLike, levels: Sequence[float]) -> Numbers:  # (...), (..., L) → (..., L)
    """The pinball loss of each quantile: α (y − q) above it, (1 − α) (q − y) below (Koenker & Bassett 1978)."""
    errors = np.asarray(truth, np.float64)[..., None] - np.asarray(quantiles, np.float64)
    alphas = np.asarray(levels, np.float64)
    losses: Numbers = np.maximum(alphas * errors, (alphas - 1) * errors)
    return losses


def crps(truth: ArrayLike, quantiles: ArrayLike, levels: Sequence[float]) -> Numbers:  # (...), (..., L) → (...)
    """The continuous ranked probability score (Matheson & Winkler 1976) of forecasts that are given by quantiles.

    The quantile function is taken as linear between the levels and as constant outside. CRPS = 2 ∫ pinball(α) dα then
    has a closed form; it approaches that of the distribution as levels are added.
    """
    actual, values = np.asarray(truth, np.float64), np.asarray(quantiles, np.float64)
    alphas = np.asarray(levels, np.float64)
    first, last = alphas[0], alphas[-1]
    low, high = values[..., 0], values[..., -1]
    below, above = (actual < low), (actual > high)
    # Constant parts: ∫ over [0, first] and over [last, 1].
    total = np.where(below, (low - actual) * (first - first**2 / 2), (actual - low) * first**2 / 2)
    total = total + np.where(
        above, (actual - high) * (1 - last**2) / 2, (high - actual) * ((1 - last) - (1 - last**2) / 2)
    )
    for place in range(len(alphas) - 1):
        start, end = alphas[place], alphas[place + 1]
        left, right = values[..., place], values[..., place + 1]
        slope = (right - left) / (end - start)
        rising = np.where(slope > 0, slope, 1.0)
        # The level at which the quantile function passes the truth, within this part.
        crossing = np.where(slope > 0, start + (actual - left) / rising, np.where(actual >= left, end, start))
        crossing = np.clip(crossing, start, end)
        total = total + _pinball_integral(actual, left, slope, start, (start, crossing), is_above=True)
        total = total + _pinball_integral(actual, left, slope, start, (crossing, end), is_above=False)
    return np.asarray(2 * total)


def _pinball_integral(
    truth: Numbers, left: Numbers, slope: Numbers, start: float, bounds: tuple[Any, Any], *, is_above: bool
) -> Numbers:
    """∫ of α e(α), or of (α − 1) e(α), with the error e(α) = y − left − slope (α − start)."""
    constant = truth - left + slope * start  # e(α) = constant − slope α

    def primitive(alpha: Any) -> Any:
        weighted = constant * alpha**2 / 2 - slope * alpha**3 / 3  # ∫ α e
        return weighted if is_above else weighted - (constant * alpha - slope * alpha**2 / 2)

    value: Numbers = primitive(bounds[1]) - primitive(bounds[0])
    return value


def coverage(truth: ArrayLike, low: ArrayLike, high: ArrayLike) -> NDArray[np.bool_]:
    """Whether each value lies within its interval."""
    actual = np.asarray(truth)
    inside: NDArray[np.bool_] = (np.asarray(low) <= actual) & (actual <= np.asarray(high))
    return inside


def interval_name(share: float) -> str:
    """``80`` for 0.8, as in coverage_80."""
    return f"{100 * share:.4g}".replace(".", "_")


def shown_names(levels: Sequence[float]) -> list[str]:
    """The metrics of a table: of all intervals, the usual one and wider ones."""
    usual = usual_interval(levels)
    names = ["crps", "crps_scaled", "pinball"]
    for low, _, share in central_intervals(levels) if usual is not None else ():
        if usual is not None and low <= usual[0]:
            names.append(f"coverage_{interval_name(share)}")
    return names


def quantile_scores(
    truth: Numbers,  # (N, horizon, K)
    quantiles: NDArray[np.float32],  # (N, horizon, K, levels)
    levels: Sequence[float],
    *,
    scale: Numbers,  # (K,), standard deviations in the training data
) -> dict[str, Numbers]:
    """Each metric at each step and for each target, (horizon, K)."""
    sums: dict[str, Numbers] = {}
    at_once = max((1 << 22) // max(quantiles[0].size, 1), 1)
    for start in range(0, len(truth), at_once):
        actual, values = truth[start : start + at_once], quantiles[start : start + at_once].astype(np.float64)
        ranked = crps(actual, values, levels)
        part = {"crps": ranked, "crps_scaled": ranked / scale, "pinball": pinball(actual, values, levels).mean(axis=-1)}
        for low, high, share in central_intervals(levels):
            name = interval_name(share)
            part[f"coverage_{name}"] = coverage(actual, values[..., low], values[..., high]).astype(np.float64)
            part[f"width_{name}"] = values[..., high] - values[..., low]
        for name, each in part.items():
            sums[name] = sums.get(name, np.zeros(each.shape[1:])) + each.sum(axis=0)
    return {name: total / len(truth) for name, total in sums.items()}
