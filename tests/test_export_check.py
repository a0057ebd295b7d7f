"""What all exports of models share."""

import numpy as np
import pytest

from seqloom.export_check import ExportError, padded_vectors, relative_difference, require_equal


@pytest.mark.parametrize(
    ("answer", "expected", "difference"),
    [
        ([1.0, 2.0], [1.0, 2.5], 0.2),
        ([0.1], [0.2], 0.1),
        ([np.nan, -np.inf], [np.nan, -np.inf], 0.0),
        ([np.nan], [1.0], np.inf),
        ([np.inf], [1.0], np.inf),
        ([1.0, 1.0], [1.0], np.inf),
        ([], [], 0.0),
    ],
)
def test_relative_difference(answer: list[float], expected: list[float], difference: float) -> None:
    assert relative_difference(np.array(answer), np.array(expected)) == pytest.approx(difference)


def test_a_difference_above_the_tolerance_is_refused() -> None:
    expected = np.array([1.0, -300.0])
    assert require_equal("numbers", expected + np.array([0, 0.0029]), expected, [None]) == pytest.approx(0.0029 / 300)
    for wrong in ([1.00002, -300.0], [np.nan, -300.0], [1.0]):
        with pytest.raises(ExportError, match=r"numbers differs by .*; nothing was written"):
            require_equal("numbers", np.array(wrong), expected, [None])


def test_padding_is_nan() -> None:
    arrays = padded_vectors([np.ones((2, 3)), np.zeros((0, 3))])
    assert arrays["lengths"].tolist() == [2, 0]
    assert arrays["values"].shape == (2, 2, 3)
    assert np.isnan(arrays["values"][1]).all()
