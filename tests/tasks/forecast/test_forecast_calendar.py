"""A forecaster that reads the calendar learns what the history does not show."""

from pathlib import Path

import numpy as np
import pytest
import torch

from seqloom.models.forecaster import ForecastInputs
from seqloom.tasks.forecast import Forecast


def closed_on_sundays(folder: Path) -> Path:
    """Daily sales with noise, none on Sundays, with a history too short to see the week."""
    days = np.datetime64("2024-01-01") + np.arange(300)
    sales = 10 + np.random.default_rng(0).normal(size=300)
    sales[np.arange(300) % 7 == 6] = 0
    path = folder / "sales.csv"
    path.write_text("date,sales\n" + "\n".join(f"{day},{sale:.4f}" for day, sale in zip(days, sales, strict=True)))
    return path


def task(path: Path, **fields: object) -> Forecast:
    values = {"train": str(path), "history": 2, "horizon": 2, "season": 1, "encoder": {"cell": "gru", "hidden_size": 8}}
    return Forecast.model_validate(values | {"calendar": True} | fields)


@pytest.mark.parametrize("output", ["last", "every_step"])
@pytest.mark.parametrize("independent", [False, True])
def test_the_weekday_is_learned(tmp_path: Path, output: str, independent: bool) -> None:
    path = closed_on_sundays(tmp_path)
    fitted = task(path, output=output, channel_independent=independent, distribution="quantiles")
    examples = list(fitted.read(path))
    fitted = fitted.fit(examples)
    assert fitted.fitted.calendar == ("weekday", "time of year")
    torch.manual_seed(0)
    model = fitted.build_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    batch = fitted.collate(examples)
    assert isinstance(batch.inputs, ForecastInputs)
    for _ in range(60):
        loss = fitted.loss(model, batch)
        optimizer.zero_grad()
        (loss.total / loss.items).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        scores = fitted.score(fitted.predict(model, batch).answers, examples)
        (answer,) = fitted.predict(model, fitted.collate(list(fitted.read_inputs(path)))).answers
    assert scores["skill"] > 0.85  # without the calendar, Sundays come as a surprise
    assert answer.times == ["2024-10-27", "2024-10-28"]
    sunday, monday = (row[0] for row in answer.values)
    assert sunday < 2.5
    assert monday > 7.5


def test_features_of_the_future_follow_the_history(tmp_path: Path) -> None:
    path = closed_on_sundays(tmp_path)
    fitted = task(path).fit(list(task(path).read(path)))
    examples = list(fitted.read(path))
    first, later = (fitted.collate([window]).inputs for window in (examples[0], examples[1]))
    np.testing.assert_array_equal(first.future[0, 0, 0], later.known[0, -1])
    known, unknown = fitted.collate(examples[-1:]), fitted.collate(list(fitted.read_inputs(path)))
    np.testing.assert_allclose(unknown.inputs.known[0, -1], known.inputs.future[0, 0, -1])
    model = fitted.build_model().eval()
    with torch.no_grad():
        (prediction,) = fitted.predict(model, fitted.collate(examples[3:4])).answers
        alone = fitted.attribute(model, examples[3], prediction=prediction, method="integrated_gradients")
    assert alone.target.startswith("the change of sales")
