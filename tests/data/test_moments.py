"""Running moments, against NumPy on all frames."""

import numpy as np
import pytest

from seqloom.data.moments import RunningMoments


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
