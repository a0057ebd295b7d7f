"""Means and standard deviations computed in one pass, against NumPy on all frames."""

import numpy as np
import pytest

from seqloom.data.feature_statistics import RunningMoments, compact


def test_running_moments_match_numpy() -> None:
    random = np.random.default_rng(1)
    sequences = [random.normal(1000, 3, size=(length, 2)) for length in (5, 0, 1, 40)]
    moments = RunningMoments()
    for sequence in sequences:
        moments.add(sequence)
    together = np.concatenate(sequences)
    assert moments.means() == pytest.approx(together.mean(axis=0).tolist(), rel=1e-12)
    assert moments.deviations() == pytest.approx(together.std(axis=0).tolist(), rel=1e-9)
    assert moments.count == 46


def test_constant_feature_has_deviation_one() -> None:
    moments = RunningMoments()
    assert (moments.size, moments.means(), moments.deviations()) == (0, (), ())
    moments.add([[1.0, 2.0], [1.0, 4.0]])
    assert (moments.size, moments.means(), moments.deviations()) == (2, (1.0, 3.0), (1.0, 1.0))


def test_rounding_is_no_deviation() -> None:
    moments = RunningMoments()
    moments.add(np.full((1000, 1), 0.1))
    moments.add(np.full((777, 1), 0.1))
    assert moments.deviations() == (1.0,)
    assert moments.constant() == [0]


def test_times_are_centred_in_double_precision() -> None:
    times = 1.7e9 + np.arange(50.0)[:, None]
    assert compact(times).dtype == np.float64
    assert compact(np.arange(50.0)[:, None] / 7).dtype == np.float32
    moments = RunningMoments()
    moments.add(compact(times))
    assert moments.deviations() == pytest.approx([times.std()], rel=1e-6)
    assert moments.constant() == []
