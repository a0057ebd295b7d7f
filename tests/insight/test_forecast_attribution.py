"""Which values of the history mattered for a forecast."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.tasks.forecast.test_forecast import answers, randomize, task, wave

from seqloom.data.readers.series import Series, Window
from seqloom.data.readers.text_files import Location
from seqloom.insight.attribution import Attribution
from seqloom.insight.attribution_plot import attribution_html, attribution_lines, draw_attribution
from seqloom.tasks.forecast import Forecast, ForecastPrediction

VALUES = 5 + 3 * wave(40)


def window(start: int, stop: int) -> Window:
    return Window(Series(Location("x", 1), VALUES, ("1", "2"), 0, len(VALUES)), start, stop, known=False)


def explained(fields: dict[str, Any], example: Window, **options: Any) -> tuple[ForecastPrediction, Attribution]:
    fitted: Forecast = task(**fields).fit(task(**fields).read([VALUES]))
    model = randomize(fitted.build_model())
    (prediction,) = answers(fitted, model, [example])
    with torch.no_grad():
        chosen = {"method": "integrated_gradients", **options}
        return prediction, fitted.attribute(model, example, prediction=prediction, **chosen)


@pytest.mark.parametrize(
    ("start", "fields"),
    [
        (0, {}),
        (9, {}),
        (9, {"inputs": "values", "relative": False}),
        (9, {"inputs": "changes", "output": "every_step"}),
        (0, {"channel_independent": True}),
    ],
)
def test_the_values_add_up_to_the_forecast(fields: dict[str, Any], start: int) -> None:
    example = window(start, start + 4)
    prediction, attribution = explained(fields, example, target="2", word=3)
    last = 0 if fields.get("relative") is False else VALUES[start + 3, 1]
    assert attribution.score == pytest.approx(prediction.values[2][1] - last, abs=1e-3)
    assert attribution.score - attribution.baseline_score == pytest.approx(sum(attribution.values), rel=0.02, abs=1e-3)
    rows = 4 + (start > 0 and fields.get("inputs") != "values")  # the first change begins at the row before
    assert np.shape(attribution.channel_values) == (rows, 2)
    assert np.array_equal(np.asarray(attribution.signal), VALUES[start + 4 - rows : start + 4])
    assert attribution.target == ("2 (step 3)" if last == 0 else "the change of 2 (step 3)")
    assert attribution.is_number
    if "channel_independent" in fields:  # the other column is not read
        assert np.array(attribution.channel_values)[:, 0] == pytest.approx(0)


def test_time_stamps_take_the_place_of_steps(tmp_path: Path) -> None:
    days = np.datetime64("2024-01-01") + np.arange(40)
    (tmp_path / "x.csv").write_text(
        "day,$ sold,b\n" + "".join(f"{day},{one},{two}\n" for day, (one, two) in zip(days, VALUES, strict=True))
    )
    fitted: Forecast = task().fit(task().read(tmp_path / "x.csv"))
    model = randomize(fitted.build_model())
    (example,) = fitted.read_inputs(tmp_path / "x.csv")
    (prediction,) = answers(fitted, model, [example])
    with torch.no_grad():
        attribution = fitted.attribute(model, example, prediction=prediction, method="occlusion", word=2)
    assert attribution.target == "the change of $ sold from 2024-02-09 to 2024-02-11"
    assert attribution.times == [str(day) for day in days[-len(attribution.values) :]]
    lines = list(attribution_lines(attribution))
    assert f"All channels over time, {attribution.times[0]} to 2024-02-09:" in lines
    assert all(row.split("  ")[-1].strip().startswith("2024-02-0") for row in lines[2:4])
    assert f"({attribution.times[0]} to 2024-02-09)" in "".join(attribution_html(attribution))
    draw_attribution(attribution, tmp_path / "a.svg")
    assert "2024-02-09" in (tmp_path / "a.svg").read_text()


def test_log_odds_of_binary_values() -> None:
    rolls = (wave(40) > 0).astype(float)
    fitted: Forecast = task(data_type="binary").fit(task(data_type="binary").read([rolls]))
    model = randomize(fitted.build_model())
    (example,) = fitted.read_inputs([rolls])
    (prediction,) = answers(fitted, model, [example])
    with torch.no_grad():
        result = fitted.attribute(model, example, prediction=prediction, method="occlusion")
    assert 1 / (1 + np.exp(-result.score)) == pytest.approx(prediction.values[0][0], abs=1e-4)
    assert (result.is_number, result.target) == (False, "1 (step 1)")
    assert not np.array(result.channel_values)[rolls[-4:] == 0].any()  # a zero is the reference


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "12"}, r"target: no column '12' is forecast, only 1, 2; did you mean 2\?"),
        ({"word": "4"}, r"word: expected the step of the forecast to explain, from 1 to 3, found '4'"),
        ({"word": "x"}, r"word: expected the step"),
    ],
)
def test_wrong_choices(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        explained({}, window(0, 4), **options)
