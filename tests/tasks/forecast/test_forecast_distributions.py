"""Every distribution trains, scores and answers with intervals; counts are checked."""

from pathlib import Path

import numpy as np
import pytest
import torch

from seqloom.data.readers.text_files import DataError
from seqloom.tasks.forecast import Forecast, ForecastPrediction

DISTRIBUTIONS = ("quantiles", "gaussian", "student_t", "gaussian_mixture", "negative_binomial")


def counts() -> np.ndarray:
    random = np.random.default_rng(0)
    return np.asarray(random.poisson(20 + 12 * np.sin(np.arange(300)[:, None] / 4 + [0, 1])), np.float64)


@pytest.mark.parametrize("output", ["last", "every_step"])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_intervals_in_the_units_of_the_data(distribution: str, output: str) -> None:
    task = Forecast.model_validate(
        {"train": "x.csv", "history": 12, "horizon": 2, "distribution": distribution, "output": output}
        | {"encoder": {"cell": "gru", "hidden_size": 8}}
    )
    values = counts()
    examples = list(task.read([values]))
    fitted = task.fit(examples)
    torch.manual_seed(0)
    model, batch = fitted.build_model(), fitted.collate(examples)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(40):
        loss = fitted.loss(model, batch)
        optimizer.zero_grad()
        (loss.total / loss.items).backward()
        optimizer.step()
    with torch.no_grad():
        scores = fitted.score(fitted.predict(model.eval(), batch).answers, examples)
        answer: ForecastPrediction
        (answer,) = fitted.predict(model, fitted.collate(list(fitted.read_inputs([values])))).answers
    assert scores["skill"] > 0.3
    assert 0.65 < scores["coverage_80"] < 0.95  # after 40 updates
    assert scores["crps"] < scores["mae"]  # an interval is worth more than a number
    low, high = (np.array(bound) for bound in answer.interval(0.8))
    assert (low < np.array(answer.values)).all()
    assert (np.array(answer.values) < high).all()
    assert values.min() - 15 < low.min()
    assert high.max() < values.max() + 15
    if distribution == "negative_binomial":
        np.testing.assert_allclose(low, np.round(low), atol=1e-4)
    as_json = answer.to_json()["quantiles"]
    assert as_json["0.1"] == low.tolist()
    assert len(str(answer).splitlines()[0].split(",")) == 6  # two columns, each with the bounds of its interval
    with pytest.raises(ValueError, match=r"expected one of the intervals of the model: 0\.95, 0\.8"):
        answer.interval(0.9)


def test_counts_are_checked(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("sold,price\n3,1.5\n4,1.5\n2.5,1.5\n")
    task = Forecast(train="x.csv", history=1, distribution="negative_binomial")
    with pytest.raises(DataError, match=r"x\.csv:2: column price: expected a count \(0, 1, 2, …\), found 1\.5"):
        list(task.read(tmp_path / "x.csv"))
    only = task.model_copy(update={"target": ("sold",)})
    with pytest.raises(DataError, match=r"x\.csv:4: column sold: expected a count .* found 2\.5"):
        list(only.read(tmp_path / "x.csv"))
