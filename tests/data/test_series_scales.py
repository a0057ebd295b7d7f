"""Scales of time series: rounding is no deviation."""

import numpy as np
import pytest

from seqloom.data.series_scales import SeriesScales


def test_a_constant_column_keeps_its_values_and_times_their_differences() -> None:
    values = np.stack([np.full(3000, 0.1), 1.7e9 + np.arange(3000.0)], axis=1)
    assert values[:, 0].std() > 0  # what rounding leaves
    scales = SeriesScales.of([values], ("constant", "time"), targets=[0, 1], horizon=1, season=0)
    assert scales.deviations == pytest.approx((1.0, 866.0), rel=1e-3)
    scaled = scales.scale(values)
    assert np.abs(scaled[:, 0]).max() < 1e-12
    assert scaled[:, 1].std() == pytest.approx(1)
