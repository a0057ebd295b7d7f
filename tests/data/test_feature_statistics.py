"""Means and standard deviations computed in one pass, against NumPy on all frames."""

import numpy as np
import pytest

from seqloom.data.feature_statistics import RunningMoments, RunningSums


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


def test_running_sums_match_numpy() -> None:
    generator = np.random.default_rng(0)
    parts = [generator.normal(3, 2, (length, 2)).astype(np.float32) for length in (4, 1, 7)]
    sums = RunningSums()
    assert (sums.size, sums.means(), sums.deviations()) == (0, (), ())
    for part in parts:
        part[:, 1] = 5
        sums.add(part)
    whole = np.concatenate(parts).astype(np.float64)
    assert (sums.count, sums.size) == (12, 2)
    assert sums.means() == pytest.approx(whole.mean(axis=0))
    assert sums.deviations() == pytest.approx([whole[:, 0].std(), 1])


def test_features_within_the_tolerance_have_deviation_one() -> None:
    sums = RunningSums()
    sums.add([[10.0, 10.0], [10.002, 11.0]])
    assert sums.deviations() == pytest.approx([0.001, 0.5], rel=1e-4)
    assert sums.deviations(tolerance=1e-3) == pytest.approx([1.0, 0.5])
