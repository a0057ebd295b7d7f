"""Sampling-rate conversion by a polyphase filter (windowed sinc), as SciPy's ``resample_poly``."""

from functools import lru_cache
from math import gcd

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

ZERO_CROSSINGS = 10  # of the sinc, on each side
BETA = 5.0  # shape of the Kaiser window
MAX_CACHED = 1 << 12  # phases whose coefficients are cached
CHUNK_PRODUCTS = 1 << 22  # multiplications in one chunk


def resampled_length(length: int, up: int, down: int) -> int:
    return -(-length * up // down)


def resample(
    samples: Tensor,  # (..., N)
    *,
    up: int,
    down: int,
) -> Tensor:  # (..., ⌈N up / down⌉), with zeros before the start and after the end
    """Change the sampling rate by the factor up / down."""
    if up < 1 or down < 1:
        raise ValueError(f"up is {up} and down is {down}, expected 1 or more")
    up, down = up // gcd(up, down), down // gcd(up, down)
    if up == down:
        return samples
    count = resampled_length(samples.shape[-1], up, down)
    reach = ZERO_CROSSINGS * max(up, down) // up + 1  # samples on each side of an output
    padded = torch.nn.functional.pad(samples, (reach, reach + 1))
    windows = padded.unfold(-1, 2 * reach + 1, 1)  # (..., N + 2, 2 reach + 1)
    chunk = max(CHUNK_PRODUCTS // (2 * reach + 1) // max(samples.shape[:-1].numel(), 1), 1)
    pieces = [samples.new_zeros(*samples.shape[:-1], 0)]
    for start in range(0, count, chunk):
        outputs = torch.arange(start, min(start + chunk, count))
        positions = (outputs * down // up).to(samples.device)
        cached = up <= MAX_CACHED
        weights = _period(up, down)[outputs % up] if cached else _weights(up, down, start, start + len(outputs))
        weights = weights.to(samples)  # (chunk, 2 reach + 1)
        pieces.append((windows.index_select(-2, positions) * weights).sum(dim=-1))
    return torch.cat(pieces, dim=-1)


@lru_cache(maxsize=16)
def _period(up: int, down: int) -> Tensor:
    return _weights(up, down, 0, up)


def _weights(up: int, down: int, start: int, stop: int) -> Tensor:  # (stop - start, 2 reach + 1)
    """The filter coefficients of the outputs from start to stop."""
    widest = max(up, down)
    reach = ZERO_CROSSINGS * widest // up + 1
    phases = np.arange(start, stop) * down % up
    distances = phases[:, None] - np.arange(-reach, reach + 1) * up  # in steps of 1 / up sample
    return torch.from_numpy(up * _filter(distances / widest) / _sum(widest))


def _filter(distance: NDArray[np.float64]) -> NDArray[np.float64]:
    """A Kaiser-windowed sinc with zeros at the integers."""
    inside = np.clip(1 - (distance / ZERO_CROSSINGS) ** 2, 0, None)
    window = np.i0(BETA * np.sqrt(inside)) / np.i0(BETA)
    return np.where(np.abs(distance) <= ZERO_CROSSINGS, np.sinc(distance) * window, 0)


@lru_cache(maxsize=64)
def _sum(widest: int) -> float:
    """The sum of the filter coefficients; for more than MAX_CACHED points, extrapolated in proportion."""
    points = min(widest, MAX_CACHED)
    return (
        float(_filter(np.arange(-ZERO_CROSSINGS * points, ZERO_CROSSINGS * points + 1) / points).sum())
        * widest
        / points
    )
