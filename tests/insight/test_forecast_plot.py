"""Plots of forecasts, read back from what was drawn."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes

from seqloom.insight import draw_forecast


def drawn(axes: Axes) -> dict[str, tuple[list[float], list[float]]]:
    """The points of each line by its label."""
    return {
        str(line.get_label()): (np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist())
        for line in axes.lines
    }


def test_a_forecast_ends_with_the_observations(tmp_path: Path) -> None:
    observed = np.arange(12.0).reshape(6, 2)
    forecast, baseline = observed[-2:] + 0.5, np.repeat(observed[3:4], 2, axis=0)
    figure = draw_forecast(observed, forecast, baseline, tmp_path / "forecast.png", ["sun", "moon"])
    for column, axes in enumerate(figure.axes):
        assert drawn(axes) == {
            "observed": ([-3, -2, -1, 0, 1, 2], observed[:, column].tolist()),
            "baseline": ([1, 2], baseline[:, column].tolist()),
            "forecast": ([1, 2], forecast[:, column].tolist()),
        }
    assert [axes.get_title("left") for axes in figure.axes] == ["sun", "moon"]
    assert (tmp_path / "forecast.png").stat().st_size > 10_000


def test_one_column_needs_no_second_dimension_and_no_baseline(tmp_path: Path) -> None:
    figure = draw_forecast([1.0, 2.0], [1.5, 2.5], None, tmp_path / "x.png")
    assert list(drawn(figure.axes[0])) == ["observed", "forecast"]
    assert figure.axes[0].get_title("left") == "column 1"


def test_at_most_eight_columns_are_drawn(tmp_path: Path) -> None:
    assert len(draw_forecast(np.zeros((3, 20)), np.zeros((1, 20)), None, tmp_path / "x.png").axes) == 8


def test_mismatched_shapes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"forecast has shape \(3, 1\), expected at most \(2, 1\)"):
        draw_forecast([1.0, 2.0], [1.0, 2.0, 3.0], None, tmp_path / "x.png")
    with pytest.raises(ValueError, match=r"baseline has shape \(1, 2\)"):
        draw_forecast([1.0, 2.0], [1.0], [[1.0, 2.0]], tmp_path / "x.png")
    with pytest.raises(ValueError, match="names has 2 entries, expected 1"):
        draw_forecast([1.0, 2.0], [1.0], None, tmp_path / "x.png", ["a", "b"])


def test_dates_interval_and_the_name_of_the_baseline(tmp_path: Path) -> None:
    times = np.arange("2020-01", "2020-07", dtype="M8[M]")
    observed, forecast = np.arange(6.0), np.array([4.5, 5.5])
    figure = draw_forecast(
        observed,
        forecast,
        np.array([3.0, 3.0]),
        tmp_path / "forecast.pdf",
        intervals={"95 % interval": (forecast - 1, forecast + 2)},
        times=times,
        baseline_name="baseline: last value",
        title="air: forecasts",
    )
    (axes,) = figure.axes
    assert drawn(axes)["forecast"] == (times[-2:].tolist(), forecast.tolist())
    assert "baseline: last value" in [text.get_text() for text in figure.legends[0].get_texts()]
    (band,) = axes.collections
    heights = np.asarray(band.get_paths()[0].vertices)[:, 1]
    assert (heights.min(), heights.max()) == (3.5, 7.5)
    assert figure.get_suptitle() == "air: forecasts"
    assert (tmp_path / "forecast.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(ValueError, match="times has 2 entries, expected 6"):
        draw_forecast(observed, forecast, None, tmp_path / "x.png", times=[1, 2])


@pytest.mark.parametrize(
    ("start", "stop", "unit", "expected"),
    [
        ("1959-01-05", "1959-02-20", "D", ["Jan 1959", "Feb\n1959"]),
        ("2020-03", "2021-06", "M", ["2020", "2021"]),
        ("2020-12-30T06", "2021-01-01T12", "h", ["30 Dec 2020", "01 Jan"]),
    ],
)
def test_the_first_date_names_its_month_and_year(
    start: str, stop: str, unit: str, expected: list[str], tmp_path: Path
) -> None:
    times = np.arange(start, stop, dtype=f"M8[{unit}]")
    (axes,) = draw_forecast(np.arange(float(len(times))), [1.0], None, tmp_path / "x.png", times=times).axes
    labels = [label.get_text() for label in axes.get_xticklabels() if label.get_text()]
    assert labels[0].endswith(f"\n{expected[0]}")
    assert expected[1] in labels
    assert axes.xaxis.get_major_formatter().get_offset() == ""
